// Package audit reads who wrote what from the API server's audit log.
package audit

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// A Write is one call that changes something.
type Write struct {
	User        string
	Verb        string
	Resource    string
	Subresource string
	Namespace   string
	Name        string
	Code        int
	At          time.Time // when it was answered
}

// A Mark is a place in a log. Close must be called.
type Mark struct {
	path string
	file *os.File
}

// End marks the present end of a log.
func End(path string) (*Mark, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("audit log: %w", err)
	}
	if _, err := f.Seek(0, io.SeekEnd); err != nil {
		return nil, errors.Join(fmt.Errorf("audit log: %w", err), f.Close())
	}
	return &Mark{path: path, file: f}, nil
}

// Close gives the mark up.
func (m *Mark) Close() error { return m.file.Close() }

// Since returns the writes after the mark, once each, and moves the mark behind them. A log that
// was rotated once is read on in its new file; the API server writes a line before it answers.
func (m *Mark) Since() ([]Write, error) {
	writes, err := m.read()
	if err != nil {
		return nil, err
	}
	rotated, err := m.rotated()
	if err != nil || !rotated {
		return writes, err
	}
	next, err := os.Open(m.path)
	if err != nil {
		return nil, fmt.Errorf("audit log: %w", err)
	}
	_ = m.file.Close()
	m.file = next
	more, err := m.read()
	return append(writes, more...), err
}

func (m *Mark) rotated() (bool, error) {
	here, err := m.file.Stat()
	if err != nil {
		return false, fmt.Errorf("audit log: %w", err)
	}
	there, err := os.Stat(m.path)
	if err != nil {
		return false, fmt.Errorf("audit log: %w", err)
	}
	return !os.SameFile(here, there), nil
}

type event struct {
	Verb string `json:"verb"`
	User struct {
		Username string `json:"username"`
	} `json:"user"`
	ObjectRef struct {
		Resource    string `json:"resource"`
		Subresource string `json:"subresource"`
		Namespace   string `json:"namespace"`
		Name        string `json:"name"`
	} `json:"objectRef"`
	ResponseStatus struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
	StageTimestamp time.Time `json:"stageTimestamp"`
}

// read reads whole lines; what is left of a line that is being written is read next time.
func (m *Mark) read() ([]Write, error) {
	at, err := m.file.Seek(0, io.SeekCurrent)
	if err != nil {
		return nil, fmt.Errorf("audit log: %w", err)
	}
	var writes []Write
	lines := bufio.NewReader(m.file)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			_, err := m.file.Seek(at, io.SeekStart)
			return writes, err
		}
		if err != nil {
			return nil, fmt.Errorf("audit log: %w", err)
		}
		at += int64(len(line))
		var e event
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, fmt.Errorf("audit log: %w", err)
		}
		writes = append(writes, Write{
			User: e.User.Username, Verb: e.Verb, Code: e.ResponseStatus.Code,
			Resource: e.ObjectRef.Resource, Subresource: e.ObjectRef.Subresource,
			Namespace: e.ObjectRef.Namespace, Name: e.ObjectRef.Name, At: e.StageTimestamp,
		})
	}
}
