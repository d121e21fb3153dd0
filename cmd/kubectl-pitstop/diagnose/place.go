package diagnose

import (
	"strings"
	"unicode"
)

// A Place is a GPU, for the commands in a text. What is empty is left for the reader to fill in.
type Place struct {
	Node string
	// GPU is an index or a UUID: nvidia-smi takes either.
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

// FirstGPU is the index of the GPU that the message of a condition GPUHealthy names first, which is the one that its
// reason is about; empty if it names none.
func FirstGPU(message string) string {
	_, rest, found := strings.Cut(message, "GPU ")
	if !found {
		return ""
	}
	end := strings.IndexFunc(rest, func(r rune) bool { return !unicode.IsDigit(r) })
	if end < 0 || !strings.HasPrefix(rest[end:], " (") && !strings.HasPrefix(rest[end:], ":") {
		return ""
	}
	return rest[:end]
}
