package diagnose

import (
	"strings"
	"unicode"
)

// A Place is a GPU, or some of a node, for the commands in a text. What is empty is left for the reader to fill in.
type Place struct {
	Node string
	// GPU is an index, several with commas, or a UUID: nvidia-smi takes any.
	GPU string
}

// In puts the place where a text has NODE and INDEX.
func (p Place) In(text string) string {
	if p.Node != "" {
		text = strings.ReplaceAll(text, "NODE", p.Node)
	}
	if p.GPU != "" {
		text = strings.ReplaceAll(text, "INDEX", p.GPU)
	}
	return text
}

// FirstGPUs are the indexes of the GPUs that the message of a condition GPUHealthy names first, which are those that its
// reason is about, as nvidia-smi takes them; empty if it names none.
func FirstGPUs(message string) string {
	list, _, found := strings.Cut(message, ": ")
	list, one := strings.CutPrefix(list, "GPU ")
	if !one {
		var several bool
		if list, several = strings.CutPrefix(list, "GPUs "); !several {
			return ""
		}
	}
	var indexes []string
	for part := range strings.SplitSeq(list, ", ") {
		index, _, _ := strings.Cut(part, " (")
		if index == "" || strings.ContainsFunc(index, func(r rune) bool { return !unicode.IsDigit(r) }) {
			return ""
		}
		indexes = append(indexes, index)
	}
	if !found {
		return ""
	}
	return strings.Join(indexes, ",")
}
