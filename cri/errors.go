package cri

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

var (
	// ErrUnavailable reports that the runtime is down, restarting or not ready yet. Nothing
	// is known about what was asked.
	ErrUnavailable = errors.New("container runtime unavailable")
	// ErrImageNotFound reports that there is no such image: on the node for Image, at the
	// registry for Pull.
	ErrImageNotFound = errors.New("image not found")
	// ErrContainerNotFound reports that the runtime has no container with this id.
	ErrContainerNotFound = errors.New("container not found")
	// ErrUnauthorized reports that the registry refused a pull without credentials.
	// Registries answer the same for a private repository and for one that does not exist.
	ErrUnauthorized = errors.New("unauthorized by the registry")
	// ErrWrongPlatform reports that the image has no variant for this node.
	ErrWrongPlatform = errors.New("image is for another platform")
	// ErrRegistryUnreachable reports that the registry did not answer, failed, stalled or
	// asked for less traffic.
	ErrRegistryUnreachable = errors.New("registry unreachable")
	// ErrNoSpace reports that the image file system is full.
	ErrNoSpace = errors.New("no space left for images")
	// ErrStopTimeout reports that the runtime had not seen a container end in time.
	ErrStopTimeout = errors.New("stop not confirmed in time")
	// ErrSpaceUnknown reports that the image file system cannot be seen from here.
	ErrSpaceUnknown = errors.New("space of the image file system unknown")
)

// translate gives the error of any call but a pull its meaning, and drops the code.
func translate(err error) error {
	s := status.Convert(err)
	meaning, known := map[codes.Code]error{
		codes.Unavailable:      ErrUnavailable,
		codes.Unimplemented:    ErrUnavailable, // a socket without CRI behind it
		codes.DeadlineExceeded: context.DeadlineExceeded,
		codes.Canceled:         context.Canceled,
	}[s.Code()]
	if !known {
		return errors.New(s.Message())
	}
	return fmt.Errorf("%w: %s", meaning, s.Message())
}

// A rule tells one meaning by the texts that carry it.
type rule struct {
	meaning error
	texts   *regexp.Regexp
}

// pullRules are tried in this order on the text of a failed pull, in lower case and without
// references and URLs. The order matters: containerd joins several causes in one text, and
// says "not found" last in most of them.
//
// containerd: core/remotes/docker, core/images/handlers.go. CRI-O: go.podman.io/image.
func pullRules() []rule {
	oneOf := func(texts ...string) *regexp.Regexp { return regexp.MustCompile(strings.Join(texts, "|")) }
	return []rule{
		{ErrWrongPlatform, oneOf(
			`no match for (current )?platform`,
			`no image found in (image index|manifest list) for architecture`,
			`no matching manifest for `,
		)},
		{ErrNoSpace, oneOf(`no space left on device`, `disk quota exceeded`)},
		{ErrRegistryUnreachable, oneOf(
			`429 too many requests`, `toomanyrequests`, `too many requests`,
			`^registryunavailable`,
			`connection refused`, `connection reset`, `broken pipe`,
			`no such host`, `temporary failure in name resolution`, `server misbehaving`,
			`no route to host`, `network is unreachable`,
			`i/o timeout`, `tls handshake timeout`, `client\.timeout`, `context deadline exceeded`,
			`context canceled`,
			`: 5\d\d [a-z]`, `http status: 5\d\d`, `status code from registry 5\d\d`,
			`unexpected eof`, `: eof$`,
		)},
		{ErrUnauthorized, oneOf(
			`pull access denied`, `authorization failed`, `no basic auth credentials`,
			`401 unauthorized`, `403 forbidden`, `authentication required`,
			`unauthorized: `, `denied: `, `access to the (requested )?resource is (denied|not authorized)`,
			`invalid username/password`, `missing username or secret`,
		)},
		{ErrImageNotFound, oneOf(
			`manifest unknown`, `manifest_unknown`, `name unknown`, `name_unknown`, `repository not found`,
			`could not fetch content descriptor .* from remote: not found`,
			`failed to resolve (image|reference).*: not found$`,
			`404 not found`, `status code from registry 404`,
			`failed to parse image reference`, `invalid reference format`,
		)},
	}
}

// localTrouble matches what containerd answers with NotFound although the registry was not
// asked: its own content, snapshots and leases.
var localTrouble = regexp.MustCompile(`content digest|snapshot|lease|layer|blob|mount|unpack config`)

// noise is what a text quotes: references, URLs and paths, in which any word may occur.
var noise = regexp.MustCompile(`"[^"]*"|\b[a-z]+://[^\s"]*[^\s":,]`)

// classifyPull gives the error of a pull of ref its meaning. Texts of the runtimes are known
// here and nowhere else. What it does not know stays a plain error, which may be retried.
func classifyPull(ref string, err error) error {
	s := status.Convert(err)
	text := s.Message()
	// The connection to the runtime broke, not the runtime's to the registry.
	if s.Code() == codes.Unavailable && !strings.Contains(text, "dial tcp") || s.Code() == codes.Unimplemented {
		return translate(err)
	}
	plain := strings.ToLower(scrub(text, ref))
	for _, r := range pullRules() {
		if r.texts.MatchString(plain) {
			return fmt.Errorf("%w: %s", r.meaning, text)
		}
	}
	switch {
	case s.Code() == codes.NotFound && !localTrouble.MatchString(plain):
		return fmt.Errorf("%w: %s", ErrImageNotFound, text)
	case s.Code() == codes.DeadlineExceeded, s.Code() == codes.Canceled:
		// Our own context lives: the runtime gave up on a stalled download.
		return fmt.Errorf("%w: %s", ErrRegistryUnreachable, text)
	}
	return errors.New(text)
}

// scrub takes out of text what it quotes, and ref with its repository.
func scrub(text, ref string) string {
	text = strings.Join(noise.Split(text, -1), "")
	repository, _, _ := strings.Cut(ref, "@")
	if i := strings.LastIndex(repository, ":"); i > strings.LastIndex(repository, "/") {
		repository = repository[:i]
	}
	for _, name := range []string{ref, repository} {
		if name != "" {
			text = strings.ReplaceAll(text, name, "")
		}
	}
	return text
}

// passedOn is how kubelet passes a runtime's error on.
var passedOn = regexp.MustCompile(`rpc error: code = (\w+) desc = `)

// PullFailure gives the text of a failed pull of ref, as kubelet passes it on, its meaning: one of the errors
// that Pull returns, or one without a meaning.
func PullFailure(ref, text string) error {
	code := codes.Unknown
	if m := passedOn.FindStringSubmatchIndex(text); m != nil {
		if text[m[2]:m[3]] == codes.NotFound.String() {
			code = codes.NotFound
		}
		text = text[m[1]:]
	}
	return classifyPull(ref, status.Error(code, text))
}
