// A libnvidia-ml.so.1 without a GPU. It says what its state file says, read anew on each call; package stub
// describes that file and writes it. A function is left out by not exporting it.
#define _GNU_SOURCE
#include <ctype.h>
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "nvml.h"

enum { MAX_GPUS = 32, MAX_MIGS = 64, MAX_PROCESSES = 512, MAX_EVENTS = 256, MAX_FAULTS = 32, WORD = 96 };

typedef unsigned long long u64;

struct gpu {
	char uuid[WORD], pci[WORD], name[WORD];
	long long minor, total, reserved, used, recovery, ecc, pending, failed, clocks, links, down, numa, mig, nomem, events;
};
struct mig {
	char uuid[WORD], gpu[WORD];
	long long gi, ci, total;
};
struct process {
	char gpu[WORD], list[WORD];
	long long pid, ns, start, mib, release, fixed;
};
struct event {
	char gpu[WORD], mig[WORD];
	long long id, type, xid;
};
struct fault {
	char call[WORD], gpu[WORD];
	long long code, hang, stride;
};
struct state {
	char driver[WORD], calls[PATH_MAX];
	int gpus, migs, processes, events, faults;
	struct gpu gpu[MAX_GPUS];
	struct mig mig[MAX_MIGS];
	struct process process[MAX_PROCESSES];
	struct event event[MAX_EVENTS];
	struct fault fault[MAX_FAULTS];
};

// A handle is a name, so that it outlives a change of the state.
struct nvmlDevice_st {
	char uuid[WORD];
};
struct nvmlEventSet_st {
	long long last; // events up to this id were delivered, or happened before the set was made
	int used, gpus;
	char gpu[MAX_GPUS][WORD]; // those that are registered
};
// What is remembered of a process from one state to the next.
struct seen {
	struct process key;
	long long host;  // its PID here, when it was last there
	long long since; // when it was first found to be gone; 0: it is there
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct state now;
static struct stat read_at;
static struct nvmlDevice_st handles[MAX_GPUS + MAX_MIGS];
static struct nvmlEventSet_st sets[16];
static struct seen seen[MAX_PROCESSES];
static char driver_at_init[WORD];
static int inits;

static long long milliseconds(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000LL + t.tv_nsec / 1000000;
}

static void nap(int ms) {
	struct timespec t = {ms / 1000, (ms % 1000) * 1000000L};
	nanosleep(&t, NULL);
}

// number gives the value of key in a line of key=value words, or otherwise.
static long long number(const char *line, const char *key, long long otherwise) {
	size_t n = strlen(key);
	for (const char *at = line; (at = strstr(at, key)); at += n)
		if (at > line && isspace(at[-1]) && at[n] == '=') return strtoll(at + n + 1, NULL, 0);
	return otherwise;
}

static void word(const char *line, const char *key, char *to) {
	size_t n = strlen(key);
	*to = 0;
	for (const char *at = line; (at = strstr(at, key)); at += n)
		if (at > line && isspace(at[-1]) && at[n] == '=') {
			sscanf(at + n + 1, "%95s", to);
			return;
		}
}

static void read_gpu(const char *l, struct gpu *g) {
	word(l, "uuid", g->uuid), word(l, "pci", g->pci), word(l, "name", g->name);
	g->minor = number(l, "minor", 0), g->total = number(l, "total", 0), g->reserved = number(l, "reserved", 0);
	g->used = number(l, "used", 0), g->recovery = number(l, "recovery", 0), g->ecc = number(l, "ecc", 0);
	g->pending = number(l, "pending", 0), g->failed = number(l, "failed", 0), g->clocks = number(l, "clocks", 0);
	g->links = number(l, "links", 0), g->down = number(l, "down", 0), g->numa = number(l, "coherent", 0);
	g->mig = number(l, "mig", 0), g->nomem = number(l, "nomem", 0);
	g->events = number(l, "events", 0xC008);
}

static void read_process(const char *l, struct process *p) {
	word(l, "gpu", p->gpu), word(l, "list", p->list);
	p->pid = number(l, "pid", 0), p->ns = number(l, "ns", 0), p->start = number(l, "start", 0);
	p->mib = number(l, "mib", 0), p->release = number(l, "release", 0), p->fixed = number(l, "fixed", 0);
}

static void read_line(const char *l, struct state *s) {
	char kind[16] = "";
	sscanf(l, "%15s", kind);
	if (!strcmp(kind, "driver")) {
		sscanf(l, "%*s %95s", s->driver);
	} else if (!strcmp(kind, "calls")) {
		sscanf(l, "%*s %4095s", s->calls);
	} else if (!strcmp(kind, "gpu") && s->gpus < MAX_GPUS) {
		read_gpu(l, &s->gpu[s->gpus++]);
	} else if (!strcmp(kind, "mig") && s->migs < MAX_MIGS) {
		struct mig *m = &s->mig[s->migs++];
		word(l, "uuid", m->uuid), word(l, "gpu", m->gpu);
		m->gi = number(l, "gi", 0), m->ci = number(l, "ci", 0), m->total = number(l, "total", 0);
	} else if (!strcmp(kind, "process") && s->processes < MAX_PROCESSES) {
		read_process(l, &s->process[s->processes++]);
	} else if (!strcmp(kind, "event") && s->events < MAX_EVENTS) {
		struct event *e = &s->event[s->events++];
		word(l, "gpu", e->gpu), word(l, "mig", e->mig);
		e->id = number(l, "id", 0), e->type = number(l, "type", nvmlEventTypeXidCriticalError);
		e->xid = number(l, "xid", 0);
	} else if (!strcmp(kind, "fault") && s->faults < MAX_FAULTS) {
		struct fault *f = &s->fault[s->faults++];
		word(l, "call", f->call), word(l, "gpu", f->gpu);
		f->code = number(l, "code", 0), f->hang = number(l, "hang", 0), f->stride = number(l, "stride", 0);
	}
}

// path is PITSTOP_STUB_GPUS, or gpus.state beside the library.
static const char *path(void) {
	static char beside[PATH_MAX];
	const char *named = getenv("PITSTOP_STUB_GPUS");
	if (named && *named) return named;
	if (!*beside) {
		Dl_info self;
		char real[PATH_MAX];
		if (!dladdr((void *)path, &self) || !realpath(self.dli_fname, real)) return "gpus.state";
		strcpy(beside, dirname(real));
		strncat(beside, "/gpus.state", sizeof beside - strlen(beside) - 1);
	}
	return beside;
}

// load reads the state if its file is another one: a writer renames a new file into place. Without one there is
// no GPU.
static void load(void) {
	struct stat st;
	FILE *f = fopen(path(), "r");
	if (!f) {
		memset(&now, 0, sizeof now), memset(&read_at, 0, sizeof read_at);
		return;
	}
	if (fstat(fileno(f), &st) || (st.st_ino == read_at.st_ino && st.st_size == read_at.st_size &&
		!memcmp(&st.st_mtim, &read_at.st_mtim, sizeof st.st_mtim))) {
		fclose(f);
		return;
	}
	char line[PATH_MAX + 64];
	memset(&now, 0, sizeof now);
	while (fgets(line, sizeof line, f)) read_line(line, &now);
	fclose(f);
	read_at = st;
}

static void note(const char *call) {
	char line[160];
	if (!*now.calls) return;
	int fd = open(now.calls, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
	if (fd < 0) return;
	int n = snprintf(line, sizeof line, "%lld %s\n", milliseconds(), call);
	if (write(fd, line, n) < 0) perror(now.calls);
	close(fd);
}

static const struct fault *fault_of(const char *call, const char *uuid) {
	for (int i = 0; i < now.faults; i++) {
		const struct fault *f = &now.fault[i];
		int named = !strcmp(f->call, call) || (!strcmp(f->call, "*") && strcmp(call, "nvmlInit") && strcmp(call, "nvmlShutdown"));
		if (named && (!*f->gpu || (uuid && !strcmp(f->gpu, uuid)))) return f;
	}
	return NULL;
}

// enter begins a call. It returns 0 and holds the lock, or the code that the call is to return.
static nvmlReturn_t enter(const char *call, const char *uuid) {
	pthread_mutex_lock(&lock);
	load();
	note(call);
	const struct fault *f;
	while ((f = fault_of(call, uuid)) && f->hang) {
		pthread_mutex_unlock(&lock);
		nap(20);
		pthread_mutex_lock(&lock);
		load();
	}
	nvmlReturn_t code = f ? f->code : 0;
	if (!code && strcmp(call, "nvmlInit")) {
		if (!inits) code = 1; // uninitialized
		else if (strcmp(driver_at_init, now.driver)) code = 18; // the driver is another one by now
	}
	if (code) pthread_mutex_unlock(&lock);
	return code;
}

static nvmlReturn_t leave(nvmlReturn_t code) {
	pthread_mutex_unlock(&lock);
	return code;
}

static nvmlDevice_t handle(const char *uuid) {
	for (size_t i = 0; i < sizeof handles / sizeof *handles; i++) {
		if (!*handles[i].uuid) strcpy(handles[i].uuid, uuid);
		if (!strcmp(handles[i].uuid, uuid)) return &handles[i];
	}
	return NULL;
}

static struct gpu *gpu_of(nvmlDevice_t d) {
	for (int i = 0; i < now.gpus; i++)
		if (!strcmp(now.gpu[i].uuid, d->uuid)) return &now.gpu[i];
	return NULL;
}

static struct mig *mig_named(const char *uuid) {
	for (int i = 0; i < now.migs; i++)
		if (!strcmp(now.mig[i].uuid, uuid)) return &now.mig[i];
	return NULL;
}

static struct mig *mig_of(nvmlDevice_t d) { return mig_named(d->uuid); }

#include "process.h"
#include "calls.h"
