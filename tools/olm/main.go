// Command olm-steps prints what OLM's catalog operator creates when it
// installs a bundle: the steps of an InstallPlan, resolved by OLM's own code.
//
// The catalog operator itself pulls the bundle's image in a Job before it
// comes to this point, which needs a kubelet and a registry; the steps need
// neither. The list is JSON, one object an element, in OLM's order.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/operator-framework/operator-lifecycle-manager/pkg/controller/registry/resolver"
	"github.com/operator-framework/operator-registry/pkg/api"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: olm-steps FOLDER NAMESPACE (the folder of a bundle, with manifests/)")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "olm-steps:", err)
		os.Exit(1)
	}
}

// read makes a bundle of the folder's manifests, as a catalog hands it out.
func read(folder string) (*api.Bundle, error) {
	files, err := filepath.Glob(filepath.Join(folder, "manifests", "*.yaml"))
	if err != nil {
		return nil, err
	}
	bundle := &api.Bundle{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		object, err := yaml.YAMLToJSON(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		var head struct {
			Kind     string
			Metadata struct{ Name string }
		}
		if err := json.Unmarshal(object, &head); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		if head.Kind == "ClusterServiceVersion" {
			bundle.CsvName = head.Metadata.Name
			bundle.CsvJson = string(object)
		}
		bundle.Object = append(bundle.Object, string(object))
	}
	if bundle.CsvJson == "" {
		return nil, fmt.Errorf("%s has no ClusterServiceVersion", folder)
	}
	return bundle, nil
}

func run(folder, namespace string) error {
	bundle, err := read(folder)
	if err != nil {
		return err
	}
	steps, err := resolver.NewStepResourceFromBundle(bundle, namespace, "", "slicewright", namespace)
	if err != nil {
		return err
	}
	objects := []map[string]any{}
	for _, step := range steps {
		object := map[string]any{}
		if err := json.Unmarshal([]byte(step.Manifest), &object); err != nil {
			return err
		}
		// Rights are written without their type, which stands beside them.
		object["apiVersion"] = schema.GroupVersion{Group: step.Group, Version: step.Version}.String()
		object["kind"] = step.Kind
		objects = append(objects, object)
	}
	encoder := json.NewEncoder(os.Stdout)
	encoder.SetIndent("", "  ")
	return encoder.Encode(objects)
}
