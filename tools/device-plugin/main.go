// The kubelet's side of a device plugin: starts the plugin, waits until it has
// registered as many resources as there are commands for, does what the
// commands say, and ends it.
//
//	plugin-kubelet PLUGIN [ARGUMENT...] -- COMMAND...
//
//	list RESOURCE                the ids of its devices
//	prefer RESOURCE N [ID...]    which N of these (of all, if none is named) the plugin prefers
//	allocate RESOURCE ID...      what a container with these devices gets
//
// Each command is one argument; each answer is one line of JSON. The plugin
// finds the socket where every kubelet has it, so this runs where
// /var/lib/kubelet is its own.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

type kubelet struct {
	registered chan *api.RegisterRequest
}

func (k *kubelet) Register(_ context.Context, request *api.RegisterRequest) (*api.Empty, error) {
	k.registered <- request
	return &api.Empty{}, nil
}

type plugin struct {
	client api.DevicePluginClient
	ids    []string
}

func main() {
	split := slices.Index(os.Args, "--")
	if split < 2 {
		fmt.Fprintln(os.Stderr, "plugin-kubelet PLUGIN [ARGUMENT...] -- COMMAND...")
		os.Exit(2)
	}
	if err := run(os.Args[1:split], os.Args[split+1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(command, commands []string) error {
	if err := os.MkdirAll(api.DevicePluginPath, 0o755); err != nil {
		return err
	}
	listener, err := net.Listen("unix", api.KubeletSocket)
	if err != nil {
		return err
	}
	ours := &kubelet{registered: make(chan *api.RegisterRequest)}
	server := grpc.NewServer()
	api.RegisterRegistrationServer(server, ours)
	go server.Serve(listener)
	defer server.Stop()

	child := exec.Command(command[0], command[1:]...)
	child.Stdout, child.Stderr = os.Stderr, os.Stderr
	if err := child.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- child.Wait() }()
	defer child.Process.Kill()

	wanted := map[string]bool{}
	for _, command := range commands {
		words := strings.Fields(command)
		if len(words) < 2 {
			return fmt.Errorf("%q: no such command", command)
		}
		wanted[words[1]] = true
	}
	plugins := map[string]plugin{}
	for len(plugins) < len(wanted) {
		select {
		case err := <-ended:
			return fmt.Errorf("the plugin ended: %v", err)
		case <-time.After(time.Minute):
			return fmt.Errorf("registered so far: %v", plugins)
		case request := <-ours.registered:
			if wanted[request.ResourceName] {
				if plugins[request.ResourceName], err = meet(request.Endpoint); err != nil {
					return err
				}
			}
		}
	}
	out := json.NewEncoder(os.Stdout)
	for _, command := range commands {
		words := strings.Fields(command)
		answer, err := plugins[words[1]].answer(words[0], words[2:])
		if err != nil {
			answer = map[string]string{"error": err.Error()}
		}
		if err := out.Encode(answer); err != nil {
			return err
		}
	}
	return nil
}

// meet asks a plugin for its devices.
func meet(endpoint string) (plugin, error) {
	socket := "unix://" + filepath.Join(api.DevicePluginPath, endpoint)
	connection, err := grpc.NewClient(socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return plugin{}, err
	}
	client := api.NewDevicePluginClient(connection)
	watch, err := client.ListAndWatch(context.Background(), &api.Empty{})
	if err != nil {
		return plugin{}, err
	}
	list, err := watch.Recv()
	if err != nil {
		return plugin{}, err
	}
	var ids []string
	for _, device := range list.Devices {
		ids = append(ids, device.ID)
	}
	slices.Sort(ids)
	return plugin{client, ids}, nil
}

func (p plugin) answer(verb string, words []string) (any, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	switch {
	case verb == "list":
		return p.ids, nil
	case verb == "prefer" && len(words) > 0:
		size, err := strconv.Atoi(words[0])
		if err != nil {
			return nil, err
		}
		available := words[1:]
		if len(available) == 0 {
			available = p.ids
		}
		request := &api.ContainerPreferredAllocationRequest{AvailableDeviceIDs: available, AllocationSize: int32(size)}
		reply, err := p.client.GetPreferredAllocation(ctx, &api.PreferredAllocationRequest{
			ContainerRequests: []*api.ContainerPreferredAllocationRequest{request},
		})
		if err != nil {
			return nil, err
		}
		ids := reply.ContainerResponses[0].DeviceIDs
		slices.Sort(ids)
		return ids, nil
	case verb == "allocate":
		request := &api.ContainerAllocateRequest{DevicesIDs: words}
		reply, err := p.client.Allocate(ctx, &api.AllocateRequest{
			ContainerRequests: []*api.ContainerAllocateRequest{request},
		})
		if err != nil {
			return nil, err
		}
		return reply.ContainerResponses[0], nil
	}
	return nil, fmt.Errorf("no such command")
}
