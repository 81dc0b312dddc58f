# Ends what a test started when the test is gone, however it went: the test
# holds the other end of this script's standard input, and the kernel closes
# it. Lines: "group N" a process group to end; "gone N" it has ended already;
# "keep" the folder stays for a human.
trap '' HUP INT TERM
folder=$1
groups=
keep=
while read -r word value; do
  case $word in
    group) groups="$groups $value" ;;
    gone)
      left=
      for group in $groups; do [ "$group" = "$value" ] || left="$left $group"; done
      groups=$left
      ;;
    keep) keep=yes ;;
  esac
done
for group in $groups; do kill -s KILL -- "-$group" 2>/dev/null; done
[ -n "$keep" ] || rm -rf -- "$folder"
