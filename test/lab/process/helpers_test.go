package process

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"pitstop.dev/test/lab/await"
)

func orphaned(g Group) func(context.Context) error {
	return func(context.Context) error {
		if slices.Contains(Orphans(), g) {
			return nil
		}
		return errors.New("not among the orphans")
	}
}

func awaitEnd(t *testing.T, r Record) {
	t.Helper()
	err := await.Until(t.Context(), "the end of "+r.Name, 5*time.Second, func(context.Context) error {
		if r.Alive() {
			return errors.New("it runs")
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func awaitLog(t *testing.T, g Group, name, text string) {
	t.Helper()
	err := await.Until(t.Context(), "the log of "+name, 5*time.Second, func(context.Context) error {
		data, err := os.ReadFile(g.Log(name))
		if err == nil && !strings.Contains(string(data), text) {
			err = errors.New("it lacks " + text)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
