package cri

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// The texts are what the runtimes really answered: containerd 2.4.2 as recorded against
// registries that misbehave in each way, containerd 1.7 and CRI-O from their public issues.
func TestClassifyPull(t *testing.T) {
	const sum = "sha256:2a0ce7dcaf619547bd84d6bd66839a441d0e96977b32d5b50d9db3c3e21a3f31"
	plain := errors.New("no meaning")
	for name, tt := range map[string]struct {
		ref  string
		code codes.Code
		text string
		want error
	}{
		"containerd: tag not there": {
			code: codes.NotFound,
			text: `failed to pull and unpack image "reg:5000/app:v1": failed to resolve image: reg:5000/app:v1: not found`,
			want: ErrImageNotFound,
		},
		"containerd: digest not there": {
			ref: "reg:5000/app@" + sum, code: codes.NotFound,
			text: `failed to pull and unpack image "reg:5000/app@` + sum + `": failed to resolve image: reg:5000/app@` + sum + `: not found`,
			want: ErrImageNotFound,
		},
		"containerd 1.7: tag not there": {
			code: codes.NotFound,
			text: `failed to pull and unpack image "reg:5000/app:v1": failed to resolve reference "reg:5000/app:v1": reg:5000/app:v1: not found`,
			want: ErrImageNotFound,
		},
		"containerd: a name full of words": {
			ref: "reg:5000/unauthorized/no-such-host/denied:v1", code: codes.NotFound,
			text: `failed to pull and unpack image "reg:5000/unauthorized/no-such-host/denied:v1": failed to resolve image: reg:5000/unauthorized/no-such-host/denied:v1: not found`,
			want: ErrImageNotFound,
		},
		"containerd: words in a host": {
			ref: "toomanyrequests.example/denied:v1", code: codes.Unknown,
			text: `failed to pull and unpack image "toomanyrequests.example/denied:v1": failed to resolve image: unexpected status from HEAD request to http://toomanyrequests.example/v2/denied/manifests/v1: 418 I'm a teapot`,
			want: plain,
		},
		"containerd: layer not at the registry": {
			code: codes.NotFound,
			text: `failed to pull and unpack image "reg:5000/app:v1": failed to copy: httpReadSeeker: failed open: could not fetch content descriptor ` + sum + ` (application/vnd.docker.container.image.v1+json) from remote: not found`,
			want: ErrImageNotFound,
		},
		"containerd: its own content is missing": {
			code: codes.NotFound,
			text: `failed to pull and unpack image "reg:5000/app:v1": failed to extract layer ` + sum + `: failed to get reader from content store: content digest ` + sum + `: not found`,
			want: plain,
		},
		"containerd: its own snapshot is missing": {
			code: codes.NotFound,
			text: `failed to pull and unpack image "reg:5000/app:v1": failed to prepare extraction snapshot "extract-1": parent snapshot ` + sum + ` does not exist: not found`,
			want: plain,
		},
		"containerd: not a reference": {
			ref: "UPPER/x:v1::", code: codes.Unknown,
			text: `failed to parse image reference "UPPER/x:v1::": invalid reference format`,
			want: ErrImageNotFound,
		},
		"containerd: index without the platform": {
			code: codes.NotFound,
			text: `get image config descriptor: no match for platform in manifest sha256:e495fb41248100b6a08104630271c5edee7893860d758bd6909aa2c6d76a221a: not found`,
			want: ErrWrongPlatform,
		},
		"containerd 1.7: index without the platform": {
			code: codes.NotFound,
			text: `failed to pull and unpack image "reg:5000/app:v1": no match for platform in manifest: not found`,
			want: ErrWrongPlatform,
		},
		"containerd: connection refused": {
			code: codes.Unknown,
			text: `failed to pull and unpack image "reg:5000/app:v1": failed to resolve image: failed to do request: Head "https://reg:5000/v2/app/manifests/v1": dial tcp 127.0.0.1:5000: connect: connection refused`,
			want: ErrRegistryUnreachable,
		},
		"containerd: no such host": {
			code: codes.Unknown,
			text: `failed to pull and unpack image "reg:5000/app:v1": failed to resolve image: failed to do request: Head "https://reg:5000/v2/app/manifests/v1": dial tcp: lookup reg on 10.96.0.10:53: no such host`,
			want: ErrRegistryUnreachable,
		},
		"containerd: name server broken": {
			code: codes.Unknown,
			text: `failed to pull and unpack image "reg:5000/app:v1": failed to resolve image: failed to do request: Head "https://reg:5000/v2/app/manifests/v1": dial tcp: lookup reg on 10.96.0.10:53: server misbehaving`,
			want: ErrRegistryUnreachable,
		},
		"containerd: timeout": {
			code: codes.Unknown,
			text: `failed to pull and unpack image "reg:5000/app:v1": failed to resolve reference "reg:5000/app:v1": failed to do request: Head "https://reg:5000/v2/app/manifests/v1": dial tcp 192.0.2.1:5000: i/o timeout`,
			want: ErrRegistryUnreachable,
		},
		"containerd: no progress for image_pull_progress_timeout": {
			code: codes.Canceled,
			text: `failed to pull and unpack image "reg:5000/app:v1": failed to copy: httpReadSeeker: failed open: failed to do request: Get "https://reg:5000/v2/app/blobs/` + sum + `": context canceled`,
			want: ErrRegistryUnreachable,
		},
		"containerd: 500": {
			code: codes.Unknown,
			text: `failed to pull and unpack image "reg:5000/app:v1": failed to resolve image: unexpected status from HEAD request to http://reg:5000/v2/app/manifests/v1: 500 Internal Server Error`,
			want: ErrRegistryUnreachable,
		},
		"containerd: 503 for a layer": {
			code: codes.Unknown,
			text: `failed to pull and unpack image "reg:5000/app:v1": failed to copy: httpReadSeeker: failed open: unexpected status from GET request to http://reg:5000/v2/app/blobs/` + sum + `: 503 Service Unavailable`,
			want: ErrRegistryUnreachable,
		},
		"containerd: 503 from the token server": {
			code: codes.Unknown,
			text: `failed to pull and unpack image "reg:5000/app:v1": failed to resolve image: failed to authorize: failed to fetch anonymous token: unexpected status from GET request to http://auth/token?scope=repository%3Aapp%3Apull&service=x: 503 Service Unavailable`,
			want: ErrRegistryUnreachable,
		},
		"containerd: 429 with words about authentication": {
			code: codes.Unknown,
			text: `failed to pull and unpack image "reg:5000/app:v1": failed to copy: httpReadSeeker: failed open: unexpected status from GET request to https://reg:5000/v2/app/manifests/v1: 429 Too Many Requests` + "\n" + `toomanyrequests: You have reached your unauthenticated pull rate limit. https://www.docker.com/increase-rate-limit`,
			want: ErrRegistryUnreachable,
		},
		"containerd: connection cut in a layer": {
			code: codes.Unknown,
			text: `failed to pull and unpack image "reg:5000/app:v1": failed to copy: httpReadSeeker: failed open: failed to do request: Get "https://reg:5000/v2/app/blobs/` + sum + `": EOF`,
			want: ErrRegistryUnreachable,
		},
		"containerd: basic authentication": {
			code: codes.Unknown,
			text: `failed to pull and unpack image "reg:5000/app:v1": failed to resolve image: pull access denied, repository does not exist or may require authorization: authorization failed: no basic auth credentials`,
			want: ErrUnauthorized,
		},
		"containerd: token without the scope": {
			code: codes.Unknown,
			text: `failed to pull and unpack image "reg:5000/app:v1": failed to resolve image: pull access denied, repository does not exist or may require authorization: server message: insufficient_scope: authorization failed`,
			want: ErrUnauthorized,
		},
		"containerd: token refused": {
			code: codes.Unknown,
			text: `failed to pull and unpack image "reg:5000/app:v1": failed to resolve image: failed to authorize: failed to fetch anonymous token: unexpected status from GET request to http://auth/token?scope=repository%3Aapp%3Apull&service=x: 401 Unauthorized`,
			want: ErrUnauthorized,
		},
		"containerd: 403": {
			code: codes.Unknown,
			text: `failed to pull and unpack image "reg:5000/app:v1": failed to resolve image: unexpected status from HEAD request to http://reg:5000/v2/app/manifests/v1: 403 Forbidden` + "\ndenied",
			want: ErrUnauthorized,
		},
		"containerd: disk full": {
			code: codes.Unknown,
			text: `failed to pull and unpack image "reg:5000/app:v1": failed to extract layer ` + sum + `: write /var/lib/containerd/tmpmounts/containerd-mount1/weights: no space left on device`,
			want: ErrNoSpace,
		},
		"containerd: not ready yet": {
			code: codes.Unavailable, text: `server is not initialized yet`, want: ErrUnavailable,
		},
		"the socket is not there": {
			code: codes.Unavailable,
			text: `connection error: desc = "transport: Error while dialing: dial unix /run/containerd/containerd.sock: connect: no such file or directory"`,
			want: ErrUnavailable,
		},
		"the runtime refuses connections": {
			code: codes.Unavailable,
			text: `connection error: desc = "transport: Error while dialing: dial unix /run/containerd/containerd.sock: connect: connection refused"`,
			want: ErrUnavailable,
		},
		"the runtime died in the pull": {
			code: codes.Unavailable, text: `error reading from server: EOF`, want: ErrUnavailable,
		},
		"a socket without CRI": {
			code: codes.Unimplemented, text: `unknown service runtime.v1.ImageService`, want: ErrUnavailable,
		},
		"CRI-O: tag not there": {
			code: codes.Unknown,
			text: `initializing source docker://reg:5000/app:v1: reading manifest v1 in reg:5000/app: manifest unknown`,
			want: ErrImageNotFound,
		},
		"CRI-O: repository not there": {
			code: codes.Unknown,
			text: `initializing source docker://reg:5000/app:v1: reading manifest v1 in reg:5000/app: name unknown: repository name not known to registry`,
			want: ErrImageNotFound,
		},
		"CRI-O: access denied": {
			code: codes.Unknown,
			text: `initializing source docker://reg:5000/app:v1: reading manifest v1 in reg:5000/app: errors:` + "\n" + `denied: requested access to the resource is denied` + "\n" + `unauthorized: authentication required`,
			want: ErrUnauthorized,
		},
		"CRI-O: quay": {
			code: codes.Unknown,
			text: `Error reading manifest v1 in reg:5000/app: unauthorized: access to the requested resource is not authorized`,
			want: ErrUnauthorized,
		},
		"CRI-O: platform": {
			code: codes.Unknown,
			text: `choosing an image from manifest list docker://reg:5000/app:v1: no image found in image index for architecture "amd64", variant "", OS "linux"`,
			want: ErrWrongPlatform,
		},
		"CRI-O: platform, before 1.24": {
			code: codes.Unknown,
			text: `choosing an image from manifest list docker://reg:5000/app:v1: no image found in manifest list for architecture amd64, variant "", OS linux`,
			want: ErrWrongPlatform,
		},
		"CRI-O: connection refused": {
			code: codes.Unknown,
			text: `RegistryUnavailable: pinging container registry reg:5000: Get "http://reg:5000/v2/": dial tcp 127.0.0.1:5000: connect: connection refused`,
			want: ErrRegistryUnreachable,
		},
		"CRI-O: proxy without name service": {
			code: codes.Unknown,
			text: `pinging container registry reg:5000: Get "https://reg:5000/v2/": proxyconnect tcp: dial tcp: lookup proxy: Temporary failure in name resolution`,
			want: ErrRegistryUnreachable,
		},
		"CRI-O: 503": {
			code: codes.Unknown,
			text: `initializing source docker://reg:5000/app:v1: reading manifest v1 in reg:5000/app: received unexpected HTTP status: 503 Service Unavailable`,
			want: ErrRegistryUnreachable,
		},
		"CRI-O: rate limit": {
			code: codes.Unknown,
			text: `initializing source docker://reg:5000/app:v1: reading manifest v1 in reg:5000/app: toomanyrequests: You have reached your pull rate limit.`,
			want: ErrRegistryUnreachable,
		},
		"CRI-O: signature": {
			code: codes.Unknown,
			text: `SignatureValidationFailed: Source image rejected: A signature was required, but no signature exists`,
			want: plain,
		},
		"a certificate that nobody signed": {
			code: codes.Unknown,
			text: `failed to pull and unpack image "reg:5000/app:v1": failed to resolve image: failed to do request: Head "https://reg:5000/v2/app/manifests/v1": tls: failed to verify certificate: x509: certificate signed by unknown authority`,
			want: plain,
		},
	} {
		t.Run(name, func(t *testing.T) {
			ref := tt.ref
			if ref == "" {
				ref = "reg:5000/app:v1"
			}
			got := classifyPull(ref, status.Error(tt.code, tt.text))
			for _, s := range []error{
				ErrUnavailable, ErrImageNotFound, ErrUnauthorized, ErrWrongPlatform, ErrRegistryUnreachable,
				ErrNoSpace, ErrStopTimeout, ErrSpaceUnknown, context.Canceled, context.DeadlineExceeded,
			} {
				if errors.Is(got, s) != errors.Is(tt.want, s) {
					t.Errorf("is %v: %t, want the meaning %v", s, errors.Is(got, s), tt.want)
				}
				if passed := PullFailure(ref, "rpc error: code = "+tt.code.String()+" desc = "+tt.text); tt.code != codes.Unavailable && tt.code != codes.Unimplemented && errors.Is(passed, s) != errors.Is(tt.want, s) {
					t.Errorf("as kubelet passes it on: is %v: %t, want the meaning %v", s, errors.Is(passed, s), tt.want)
				}
			}
			if !strings.HasSuffix(got.Error(), tt.text) {
				t.Errorf("the text is lost: %v", got)
			}
			if status.Code(got) != codes.Unknown {
				t.Errorf("a code shines through: %v", status.Code(got))
			}
		})
	}
}

// The runtime is told a context's deadline, and may see it before the context does.
func TestEndOf(t *testing.T) {
	now := time.Now()
	ending := func(at time.Duration) context.Context {
		ctx, cancel := context.WithDeadline(t.Context(), now.Add(time.Hour+at))
		t.Cleanup(cancel)
		return ctx
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for name, tt := range map[string]struct {
		ctx  context.Context
		want error
	}{
		"no end":           {t.Context(), nil},
		"far from its end": {ending(time.Second), nil},
		"almost at it":     {ending(slack / 2), context.DeadlineExceeded},
		"cancelled":        {gone, context.Canceled},
	} {
		t.Run(name, func(t *testing.T) {
			if got := endOf(tt.ctx, now.Add(time.Hour)); !errors.Is(got, tt.want) {
				t.Errorf("%v, want %v", got, tt.want)
			}
		})
	}
}
