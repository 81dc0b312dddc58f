// The kubelet's side of a DRA driver, driven over standard input: one command a
// line, one JSON object a line in answer. The first argument is the driver's
// socket.
//
//	prepare NAMESPACE NAME UID     prepare a claim that was allocated
//	unprepare NAMESPACE NAME UID   its pod has ended
//
// Every answer has "error", the driver's words, which are empty where it did
// what was asked; of a claim that was prepared "devices", each with the names by
// which CDI knows it.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	dra "k8s.io/kubelet/pkg/apis/dra/v1"
)

type answer struct {
	Error   string              `json:"error"`
	Devices map[string][]string `json:"devices,omitempty"`
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "the driver's socket is the only argument")
		os.Exit(2)
	}
	connection, err := grpc.NewClient("unix://"+os.Args[1], grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	driver := dra.NewDRAPluginClient(connection)
	out := json.NewEncoder(os.Stdout)
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		words := strings.Fields(in.Text())
		if len(words) != 4 {
			fmt.Fprintf(os.Stderr, "%q: no such command\n", in.Text())
			os.Exit(2)
		}
		claim := &dra.Claim{Namespace: words[1], Name: words[2], Uid: words[3]}
		reply, err := call(driver, words[0], claim)
		if err != nil {
			fmt.Fprintf(os.Stderr, "%q: %v\n", in.Text(), err)
			os.Exit(1)
		}
		if err := out.Encode(reply); err != nil {
			os.Exit(2)
		}
	}
}

func call(driver dra.DRAPluginClient, command string, claim *dra.Claim) (answer, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	claims := []*dra.Claim{claim}
	switch command {
	case "prepare":
		replies, err := driver.NodePrepareResources(ctx, &dra.NodePrepareResourcesRequest{Claims: claims})
		if err != nil {
			return answer{}, err
		}
		reply := replies.Claims[claim.Uid]
		devices := map[string][]string{}
		for _, device := range reply.GetDevices() {
			devices[device.DeviceName] = device.CdiDeviceIds
		}
		return answer{reply.GetError(), devices}, nil
	case "unprepare":
		replies, err := driver.NodeUnprepareResources(ctx, &dra.NodeUnprepareResourcesRequest{Claims: claims})
		if err != nil {
			return answer{}, err
		}
		return answer{replies.Claims[claim.Uid].GetError(), nil}, nil
	}
	return answer{}, fmt.Errorf("no such command")
}
