//! Profile names in every form that users and programs write.

use mig::{Attribute, ProfileName};
use proptest::prelude::*;

fn names() -> impl Strategy<Value = ProfileName> {
    use Attribute::{AllMedia, Graphics, Media, NoMedia, Plain};
    let attribute = prop::sample::select(vec![Plain, Media, AllMedia, Graphics, NoMedia]);
    (1..=u8::MAX, any::<u16>(), attribute).prop_map(|(compute, memory_gb, attribute)| ProfileName {
        compute,
        memory_gb,
        attribute,
    })
}

proptest! {
    #![proptest_config(ProptestConfig { rng_seed: proptest::test_runner::RngSeed::Fixed(24), failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn a_name_survives_every_form(name in names()) {
        let plain = name.to_string();
        let forms = [
            plain.clone(),
            plain.to_uppercase(),
            format!(" MIG {plain} "),
            format!("mig-{}", plain.replace('+', ".")),
            name.resource_name(),
        ];
        for form in forms {
            prop_assert_eq!(form.parse::<ProfileName>().ok(), Some(name), "{}", form);
        }
        prop_assert_eq!(ProfileName::from_resource_name(&name.resource_name()), Some(name));
    }

    #[test]
    fn any_text_is_read_or_refused(text: String) {
        if let Err(error) = text.parse::<ProfileName>() {
            prop_assert_eq!(error.text, text);
        }
    }
}

#[test]
fn texts_that_are_no_names_are_refused() {
    for text in ["", "1g", "1g.gb", "0g.5gb", "+1g.5gb", "1g.+5gb", "1g.10gb+mem", "1c.3g.40gb", "300g.5gb"] {
        assert!(text.parse::<ProfileName>().is_err(), "{text}");
    }
    // Nobody offers a resource whose name only looks like one.
    let resources =
        ["nvidia.com/gpu", "nvidia.com/mig-1G.10GB", "nvidia.com/mig-01g.10gb", "nvidia.com/mig-1g.10gb+me"];
    for resource in resources {
        assert_eq!(ProfileName::from_resource_name(resource), None, "{resource}");
    }
    let error = "1g10gb".parse::<ProfileName>().unwrap_err();
    assert!(error.to_string().contains("`1g10gb` is not a profile name"), "{error}");
}
