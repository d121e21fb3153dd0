package v1alpha1

import (
	"fmt"
	"strconv"
)

// maxResidentMiB is more than any GPU has: 16 TiB.
const maxResidentMiB = 16 << 20

// ResidentMiB returns the value of an annotation with ResidentPrefix: a whole number of MiB, in digits alone.
func ResidentMiB(value string) (int64, error) {
	n, err := strconv.ParseUint(value, 10, 63)
	if err != nil || n > maxResidentMiB {
		return 0, fmt.Errorf("must be a whole number of MiB from 0 to %d, in digits alone", maxResidentMiB)
	}
	return int64(n), nil
}
