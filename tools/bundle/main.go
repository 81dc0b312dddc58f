// Command bundle-validate judges an OLM bundle as
//
//	operator-sdk bundle validate FOLDER
//	operator-sdk bundle validate FOLDER --select-optional suite=operatorframework --optional-values k8s-version=VERSION
//
// do, one after the other: that command cannot be built from published
// modules, and the validators are the library's. The validator of objects
// (budgets, priority classes, rights) runs as well; the SDK offers it nowhere.
//
// Left out, as in that suite: `community` and `operatorhub`, which are
// deprecated, and `multiarch`, which pulls the image.
//
// One JSON object is printed: who looked, and what was found. The exit status
// is 0 without findings, 1 with findings, 2 when there is nothing to judge.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"

	"github.com/operator-framework/api/pkg/manifests"
	"github.com/operator-framework/api/pkg/validation"
	interfaces "github.com/operator-framework/api/pkg/validation/interfaces"
)

// named is a validator by the name that the SDK gives it.
type named struct {
	name      string
	validator interfaces.Validator
}

// all of them: the SDK's default set, its suite, and the one of objects.
var all = []named{
	{"clusterserviceversion", validation.ClusterServiceVersionValidator},
	{"customresourcedefinition", validation.CustomResourceDefinitionValidator},
	{"bundle", validation.BundleValidator},
	{"operatorhubv2", validation.OperatorHubV2Validator},
	{"capabilities", validation.StandardCapabilitiesValidator},
	{"categories", validation.StandardCategoriesValidator},
	{"alpha-deprecated-apis", validation.AlphaDeprecatedAPIsValidator},
	{"good-practices", validation.GoodPracticesValidator},
	{"object", validation.ObjectValidator},
}

// finding is one thing that a validator says.
type finding struct {
	Validator string `json:"validator"`
	Level     string `json:"level"`
	Field     string `json:"field,omitempty"`
	Detail    string `json:"detail"`
}

// report is everything that was found, and who looked.
type report struct {
	Validators []string  `json:"validators"`
	Objects    int       `json:"objects"`
	Findings   []finding `json:"findings"`
}

func main() {
	version := flag.String("k8s-version", "", "the newest Kubernetes that the bundle is for: APIs that it lacks are errors")
	flag.Usage = func() {
		fmt.Fprintln(os.Stderr, "usage: bundle-validate [--k8s-version VERSION] FOLDER (with manifests/ and metadata/)")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() != 1 {
		flag.Usage()
		os.Exit(2)
	}
	bundle, err := manifests.GetBundleFromDir(flag.Arg(0))
	if err != nil {
		fmt.Fprintf(os.Stderr, "cannot read the bundle %s: %v\n", flag.Arg(0), err)
		os.Exit(2)
	}
	objects := bundle.ObjectsToValidate()
	for _, object := range bundle.Objects {
		objects = append(objects, object)
	}
	result := report{Validators: []string{}, Objects: len(bundle.Objects), Findings: []finding{}}
	// What the SDK takes from --optional-values goes along as one more object.
	objects = append(objects, map[string]string{"k8s-version": *version})
	for _, one := range all {
		result.Validators = append(result.Validators, one.name)
		for _, answer := range one.validator.Validate(objects...) {
			for _, said := range append(answer.Errors, answer.Warnings...) {
				result.Findings = append(result.Findings, finding{
					Validator: one.name, Level: string(said.Level), Field: said.Field, Detail: said.Detail,
				})
			}
		}
	}
	encoder := json.NewEncoder(os.Stdout)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(result); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	if len(result.Findings) > 0 {
		os.Exit(1)
	}
}
