// Package nvfm stands in for NVIDIA's bindings of the fabric manager (go-nvfm
// v0.1.0), which the Go module proxy does not have: these are the names that
// the DRA driver compiles against, and none of NVIDIA's code. The driver asks
// for partitions of a fabric only where its feature for that is on, which it is
// not here, and no simulated node has a fabric manager: every call fails.
package nvfm

import "fmt"

// Return is what a call ends with.
type Return int

// The two that occur: the bindings have more.
const (
	SUCCESS         Return = 0
	LIBRARYNOTFOUND Return = -1
)

func (r Return) String() string {
	if r == LIBRARYNOTFOUND {
		return "there is no fabric manager here"
	}
	return fmt.Sprintf("fabric manager: %d", int(r))
}

// FabricPartitionId is the number of a partition.
type FabricPartitionId uint32

// FabricPartitionGpuInfo is a GPU of a partition.
type FabricPartitionGpuInfo struct {
	PhysicalId          uint32
	Uuid                [80]int8
	PciBusId            [32]int8
	NumNvLinksAvailable uint32
	MaxNumNvLinks       uint32
	NvlinkLineRateMBps  uint32
}

// FabricPartitionInfo is a partition.
type FabricPartitionInfo struct {
	PartitionId FabricPartitionId
	IsActive    uint32
	NumGpus     uint32
	GpuInfo     [16]FabricPartitionGpuInfo
}

// FabricPartitionList is what partitions there are.
type FabricPartitionList struct {
	NumPartitions uint32
	PartitionInfo [64]FabricPartitionInfo
}

// Handle is a connection.
type Handle interface {
	Disconnect() Return
	GetSupportedFabricPartitions() (FabricPartitionList, Return)
	ActivateFabricPartition(FabricPartitionId) Return
	DeactivateFabricPartition(FabricPartitionId) Return
}

// Interface is the library.
type Interface interface {
	Init() Return
	Shutdown() Return
	Connect(...ConnectOption) (Handle, Return)
}

// LibraryOption and ConnectOption are looked at by nobody.
type (
	LibraryOption struct{}
	ConnectOption struct{}
)

// WithLibraryPath names the library.
func WithLibraryPath(string) LibraryOption { return LibraryOption{} }

// WithUnixSocket names the manager's socket.
func WithUnixSocket(string) ConnectOption { return ConnectOption{} }

// WithAddress names the manager's address.
func WithAddress(string) ConnectOption { return ConnectOption{} }

// WithTimeoutMs says how long to wait for it.
func WithTimeoutMs(uint32) ConnectOption { return ConnectOption{} }

type absent struct{}

// New returns a library that is not there.
func New(...LibraryOption) Interface { return absent{} }

func (absent) Init() Return     { return LIBRARYNOTFOUND }
func (absent) Shutdown() Return { return LIBRARYNOTFOUND }

func (absent) Connect(...ConnectOption) (Handle, Return) { return nil, LIBRARYNOTFOUND }
