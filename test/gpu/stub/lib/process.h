// Which of the processes in the state still hold memory. Part of nvml.c.

// start_of gives the start time of a process, or 0 if it is gone: a zombie has given its memory back.
static long long start_of(long long pid) {
	char name[64], text[1024];
	snprintf(name, sizeof name, "/proc/%lld/stat", pid);
	FILE *f = fopen(name, "r");
	if (!f) return 0;
	size_t n = fread(text, 1, sizeof text - 1, f);
	fclose(f);
	text[n] = 0;
	char *at = strrchr(text, ')'); // the name before it may hold anything
	char condition = 0;
	long long start = 0;
	if (!at || sscanf(at + 1, " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %lld", &condition, &start) != 2)
		return 0;
	return condition == 'Z' || condition == 'X' ? 0 : start;
}

static long long namespace_of(const char *pid) {
	char name[PATH_MAX], target[64];
	long long ns = 0;
	snprintf(name, sizeof name, "/proc/%s/ns/pid", pid);
	ssize_t n = readlink(name, target, sizeof target - 1);
	if (n <= 0) return 0;
	target[n] = 0;
	sscanf(target, "pid:[%lld]", &ns);
	return ns;
}

// inner_pid is the PID of a process in its own namespace: the last of its NSpid.
static long long inner_pid(const char *pid) {
	char name[PATH_MAX], line[512];
	long long inner = 0;
	snprintf(name, sizeof name, "/proc/%s/status", pid);
	FILE *f = fopen(name, "r");
	if (!f) return 0;
	while (fgets(line, sizeof line, f))
		if (!strncmp(line, "NSpid:", 6)) {
			char *save = NULL;
			for (char *w = strtok_r(line + 6, "\t \n", &save); w; w = strtok_r(NULL, "\t \n", &save)) inner = atoll(w);
			break;
		}
	fclose(f);
	return inner;
}

static int is(const struct process *p, long long host) {
	long long start = start_of(host);
	return start && (!p->start || p->start == start);
}

// host_of finds a process here: its PID is that in the namespace ns. 0: it is gone.
static long long host_of(const struct process *p) {
	if (!p->ns || p->ns == namespace_of("self")) return is(p, p->pid) ? p->pid : 0;
	DIR *proc = opendir("/proc");
	long long host = 0;
	for (struct dirent *e; proc && !host && (e = readdir(proc));)
		if (isdigit(*e->d_name) && namespace_of(e->d_name) == p->ns && inner_pid(e->d_name) == p->pid && is(p, atoll(e->d_name)))
			host = atoll(e->d_name);
	if (proc) closedir(proc);
	return host;
}

static int same(const struct process *a, const struct process *b) {
	return a->pid == b->pid && a->ns == b->ns && a->start == b->start && !strcmp(a->gpu, b->gpu);
}

// memory_of finds what is remembered of a process, or begins to. Places of processes that no state names are free.
static struct seen *memory_of(const struct process *p) {
	struct seen *free = NULL;
	for (int i = 0; i < MAX_PROCESSES; i++) {
		if (same(&seen[i].key, p)) return &seen[i];
		int named = 0;
		for (int k = 0; k < now.processes && !free && !named; k++) named = same(&seen[i].key, &now.process[k]);
		if (!free && !named) free = &seen[i];
	}
	if (free) *free = (struct seen){.key = *p};
	return free;
}

// holds says whether p still holds its memory, and by which PID it is known.
static int holds(const struct process *p, unsigned *pid) {
	*pid = p->pid;
	if (p->fixed) return 1;
	struct seen *m = memory_of(p);
	if (!m) return 0;
	if (!m->host || !is(p, m->host)) {
		long long host = host_of(p);
		if (host) m->host = host, m->since = 0;
		else if (!m->since) m->since = milliseconds();
	}
	*pid = m->host;
	return !m->since || p->release < 0 || milliseconds() - m->since < p->release;
}

static u64 held(const char *uuid) {
	u64 mib = 0;
	for (int i = 0; i < now.processes; i++) {
		struct process *p = &now.process[i];
		unsigned pid;
		// One process in two lists holds its memory once.
		int again = 0;
		for (int k = 0; k < i && !again; k++) again = same(p, &now.process[k]);
		if (!strcmp(p->gpu, uuid) && p->mib > 0 && !again && holds(p, &pid)) mib += p->mib;
	}
	for (int i = 0; i < now.migs; i++)
		if (!strcmp(now.mig[i].gpu, uuid)) mib += held(now.mig[i].uuid);
	return mib;
}

// list writes the processes of one list of a device. A GPU in MIG mode lists none itself.
static nvmlReturn_t list(const char *call, nvmlDevice_t d, const char *which, unsigned *count, nvmlProcessInfo_t *to) {
	nvmlReturn_t code = enter(call, d->uuid);
	if (code) return code;
	if (!gpu_of(d) && !mig_of(d)) return leave(15);
	const struct fault *f = fault_of(call, d->uuid);
	int wrong = f && f->stride;
	unsigned n = 0, room = *count;
	struct mig *m = mig_of(d);
	nvmlProcessInfo_t infos[MAX_PROCESSES];
	for (int i = 0; i < now.processes; i++) {
		struct process *p = &now.process[i];
		unsigned pid;
		if (strcmp(p->gpu, d->uuid) || strcmp(*p->list ? p->list : "compute", which)) continue;
		if (!holds(p, &pid)) continue;
		u64 used = p->mib < 0 ? ~0ULL : (u64)p->mib << 20;
		infos[n++] = (nvmlProcessInfo_t){pid, used, m ? m->gi : -1, m ? m->ci : -1};
	}
	*count = n;
	if (n > room || (wrong && 2 * n > room)) return leave(7);
	if (wrong) {
		for (unsigned i = 0; i < n; i++) ((nvmlProcessInfo_wrong_t *)to)[i] = (nvmlProcessInfo_wrong_t){infos[i], ~0ULL};
	} else if (n) {
		memcpy(to, infos, n * sizeof *infos);
	}
	return leave(0);
}
