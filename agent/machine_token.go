package agent

import (
	"strconv"
	"strings"
)

// sameOrder reports whether two tokens belong to one InPlaceUpdate.
func sameOrder(a, b string) bool {
	i, _, _ := strings.Cut(a, "/")
	j, _, _ := strings.Cut(b, "/")
	return i == j
}

// attemptOf returns the attempt that a token names, or 0 if it is not a token.
func attemptOf(token string) int64 {
	_, n, _ := strings.Cut(token, "/")
	attempt, err := strconv.ParseInt(n, 10, 64)
	if err != nil {
		return 0
	}
	return attempt
}
