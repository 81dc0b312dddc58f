// Command bundle-validate judges an OLM bundle with the whole
// `operatorframework` suite of the validation library.
//
// It is what `operator-sdk bundle validate --select-optional
// suite=operatorframework` would do: that command cannot be built from
// published modules. One JSON object with errors and warnings is printed; the
// exit status is 0 without findings, 1 with findings, 2 when there is nothing
// to judge.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/operator-framework/api/pkg/manifests"
	"github.com/operator-framework/api/pkg/validation"
	interfaces "github.com/operator-framework/api/pkg/validation/interfaces"
)

// finding is one thing that a validator says.
type finding struct {
	Name   string `json:"name"`
	Level  string `json:"level"`
	Field  string `json:"field,omitempty"`
	Detail string `json:"detail"`
}

// report is everything that was found, and who looked.
type report struct {
	Validators int       `json:"validators"`
	Findings   []finding `json:"findings"`
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: bundle-validate FOLDER (with manifests/ and metadata/)")
		os.Exit(2)
	}
	bundle, err := manifests.GetBundleFromDir(os.Args[1])
	if err != nil {
		fmt.Fprintf(os.Stderr, "cannot read the bundle %s: %v\n", os.Args[1], err)
		os.Exit(2)
	}
	// The default set, and the optional ones that are the suite.
	validators := interfaces.Validators{
		validation.AlphaDeprecatedAPIsValidator,
		validation.CommunityOperatorValidator,
		validation.GoodPracticesValidator,
		validation.MultipleArchitecturesValidator,
		validation.OperatorHubV2Validator,
		validation.StandardCapabilitiesValidator,
		validation.StandardCategoriesValidator,
	}
	validators = append(validators, validation.DefaultBundleValidators...)
	result := report{Validators: len(validators), Findings: []finding{}}
	objects := bundle.ObjectsToValidate()
	for _, object := range bundle.Objects {
		objects = append(objects, object)
	}
	for _, answer := range validators.Validate(objects...) {
		for _, one := range append(answer.Errors, answer.Warnings...) {
			result.Findings = append(result.Findings, finding{
				Name: answer.Name, Level: string(one.Level), Field: one.Field, Detail: one.Detail,
			})
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
