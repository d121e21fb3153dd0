// Package rights takes from docs/router.md what a router may do, so that tests give it that and no more.
package rights

import (
	"errors"
	"fmt"
	"strings"
)

// Account is the name of the router's service account, of its Role and of the binding.
const Account = "router"

const (
	indent    = "    "
	first     = indent + "apiVersion: rbac.authorization.k8s.io/v1"
	appliesTo = "llm" // the namespace in the document
)

// ErrNotThere reports a document that has no such manifest.
var ErrNotThere = errors.New("no manifest of the router's rights")

// Manifest is the Role and its binding as in doc, the text of docs/router.md, for a namespace, with the
// service account that they are about.
func Manifest(doc, namespace string) (string, error) {
	_, rest, found := strings.Cut(doc, "\n"+first+"\n")
	if !found {
		return "", ErrNotThere
	}
	lines := []string{strings.TrimPrefix(first, indent)}
	for line := range strings.Lines(rest) {
		text, ours := strings.CutPrefix(strings.TrimRight(line, "\n"), indent)
		if !ours {
			break
		}
		lines = append(lines, text)
	}
	role := strings.ReplaceAll(strings.Join(lines, "\n"), "namespace: "+appliesTo, "namespace: "+namespace)
	return fmt.Sprintf("apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: %s, namespace: %s}\n---\n%s\n", Account, namespace, role), nil
}
