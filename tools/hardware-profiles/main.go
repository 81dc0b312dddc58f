// Command hardware-profile-webhook is the webhook that writes a hardware
// profile into whoever names it, as OpenShift AI 2.25 has it: the package of
// Open Data Hub's operator 2.35, unmodified. The operator's own program needs a
// whole OpenShift to start; this one needs an API server.
//
// The package is internal to the operator's module, so this module's path lies
// below that one's. Nobody else can fetch it by that path, and nobody has to.
package main

import (
	"flag"
	"log"

	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	profiles "github.com/opendatahub-io/opendatahub-operator/v2/api/infrastructure/v1alpha1"
	"github.com/opendatahub-io/opendatahub-operator/v2/internal/webhook/hardwareprofile"
)

func main() {
	port := flag.Int("port", 9443, "the port on loopback at which the API server asks")
	certificates := flag.String("certificates", "", "the folder with tls.crt and tls.key")
	flag.Parse()
	ctrl.SetLogger(zap.New())
	if err := serve(*port, *certificates); err != nil {
		log.Fatal(err)
	}
}

// serve answers until it is told to stop. The API server is found as any
// controller finds it, by KUBECONFIG.
func serve(port int, certificates string) error {
	scheme := runtime.NewScheme()
	if err := profiles.AddToScheme(scheme); err != nil {
		return err
	}
	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	manager, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:        scheme,
		Metrics:       server.Options{BindAddress: "0"},
		WebhookServer: webhook.NewServer(webhook.Options{Host: "127.0.0.1", Port: port, CertDir: certificates}),
	})
	if err != nil {
		return err
	}
	if err := hardwareprofile.RegisterWebhooks(manager); err != nil {
		return err
	}
	return manager.Start(ctrl.SetupSignalHandler())
}
