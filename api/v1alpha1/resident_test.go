package v1alpha1

import "testing"

func TestResidentMiB(t *testing.T) {
	for name, tt := range map[string]struct {
		value string
		want  int64
		bad   bool
	}{
		"a number of MiB":                     {value: "70000", want: 70000},
		"nothing may be kept":                 {value: "0"},
		"not a quantity":                      {value: "70Gi", bad: true},
		"not a negative one":                  {value: "-1", bad: true},
		"not a fraction":                      {value: "1.5", bad: true},
		"not empty":                           {value: "", bad: true},
		"not with a sign":                     {value: "+7", bad: true},
		"no more than a GPU could ever have":  {value: "16777217", bad: true},
		"not beyond what an integer can hold": {value: "99999999999999999999", bad: true},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ResidentMiB(tt.value)
			if got != tt.want || (err != nil) != tt.bad {
				t.Errorf("ResidentMiB(%q) = %d, %v", tt.value, got, err)
			}
		})
	}
}
