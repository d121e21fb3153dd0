package server

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// remember notes in the state folder who saw it first, and answers that start's id. Without a
// folder every start is the first.
func remember(dir, start string) (first string, err error) {
	if dir == "" {
		return start, nil
	}
	path := filepath.Join(dir, "first-start")
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		data, err := os.ReadFile(path)
		if err != nil {
			return "", fmt.Errorf("read first start: %w", err)
		}
		return strings.TrimSpace(string(data)), nil
	}
	if err != nil {
		return "", fmt.Errorf("note first start: %w", err)
	}
	_, werr := f.WriteString(start + "\n")
	if err := errors.Join(werr, f.Close()); err != nil {
		return "", fmt.Errorf("note first start: %w", err)
	}
	return start, nil
}

// countStart counts the starts of one version in the state folder, this one included.
func countStart(dir, version string) (int, error) {
	path := filepath.Join(dir, "starts-"+version)
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, fmt.Errorf("count starts: %w", err)
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil && len(data) > 0 {
		return 0, fmt.Errorf("count starts in %s: %w", path, err)
	}
	n++
	if err := os.WriteFile(path, []byte(strconv.Itoa(n)+"\n"), 0o644); err != nil {
		return 0, fmt.Errorf("count starts: %w", err)
	}
	return n, nil
}
