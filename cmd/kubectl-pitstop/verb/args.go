package verb

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// oneName takes exactly one argument, and says by the verb's usage which one is missing.
func oneName(cmd *cobra.Command, args []string) error {
	_, usage, _ := strings.Cut(cmd.Use, " ")
	what, _, _ := strings.Cut(usage, " ")
	line := cmd.CommandPath() + " " + usage
	switch {
	case len(args) == 0:
		return fmt.Errorf("%s is missing: %s", what, line)
	case len(args) > 1:
		return fmt.Errorf("%d arguments where one %s is wanted: %s", len(args), what, line)
	}
	return nil
}
