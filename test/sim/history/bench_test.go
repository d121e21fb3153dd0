package history

import "testing"

func TestProfile(t *testing.T) {
	if _, err := PlayMany(t.Context(), t.Output(), Many{First: 1, Count: 12, Workers: 1}); err != nil {
		t.Fatal(err)
	}
}
