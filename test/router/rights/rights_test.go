package rights_test

import (
	"errors"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pitstop.dev/test/router/rights"
)

func TestManifest(t *testing.T) {
	doc, err := os.ReadFile("../../../docs/router.md")
	if err != nil {
		t.Fatal(err)
	}
	got, err := rights.Manifest(string(doc), "default")
	if err != nil {
		t.Fatal(err)
	}
	want := `apiVersion: v1
kind: ServiceAccount
metadata: {name: router, namespace: default}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: router, namespace: default}
rules:
- {apiGroups: [""], resources: [pods], verbs: [get, list, watch]}
- {apiGroups: [""], resources: [pods/status], verbs: [patch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: router, namespace: default}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: router}
subjects: [{kind: ServiceAccount, name: router, namespace: default}]
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Manifest() (-want +got):\n%s", diff)
	}
	if _, err := rights.Manifest("# another document\n", "default"); !errors.Is(err, rights.ErrNotThere) {
		t.Errorf("error %v for another document", err)
	}
}
