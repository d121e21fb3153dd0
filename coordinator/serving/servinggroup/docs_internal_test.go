package servinggroup

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

func TestTheHandbookNamesEveryMetric(t *testing.T) {
	handbook, err := os.ReadFile("../../../docs/modelserving.md")
	if err != nil {
		t.Fatal(err)
	}
	descriptions := make(chan *prometheus.Desc, 10)
	newMetrics().Describe(descriptions)
	close(descriptions)
	name := regexp.MustCompile(`fqName: "([^"]+)"`)
	for d := range descriptions {
		if found := name.FindStringSubmatch(d.String()); found == nil || !strings.Contains(string(handbook), "`"+found[1]) {
			t.Errorf("not in docs/modelserving.md: %s", d)
		}
	}
}
