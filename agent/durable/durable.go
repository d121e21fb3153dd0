// Package durable puts files in place so that they outlive a crash of the node.
package durable

import (
	"errors"
	"os"
	"path/filepath"
)

// Replace has the file at path hold data. After a crash it holds that, or what it held before; after an error, either.
// There may be one writer of a path at a time. The folder is made if it is missing.
func Replace(path string, data []byte) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	next := path + ".new"
	err := write(next, data)
	if err == nil {
		err = os.Rename(next, path)
	}
	if err != nil {
		_ = os.Remove(next) // the next writer truncates it
		return err
	}
	return SyncDir(dir)
}

func write(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync() // else the name could outlive the content
	}
	return errors.Join(err, f.Close())
}

// SyncDir has the names in a folder outlive a crash.
func SyncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
