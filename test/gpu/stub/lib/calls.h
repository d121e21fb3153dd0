// The functions of the library. Part of nvml.c.

nvmlReturn_t nvmlInit_v2(void) {
	nvmlReturn_t code = enter("nvmlInit", NULL);
	if (code) return code;
	if (!inits++) strcpy(driver_at_init, now.driver);
	return leave(0);
}

nvmlReturn_t nvmlShutdown(void) {
	pthread_mutex_lock(&lock);
	load();
	note("nvmlShutdown");
	if (!inits) return leave(1);
	inits--;
	return leave(0);
}

const char *nvmlErrorString(nvmlReturn_t code) {
	return code ? "an error of the stub" : "Success";
}

nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned length) {
	nvmlReturn_t code = enter("nvmlSystemGetDriverVersion", NULL);
	if (code) return code;
	snprintf(version, length, "%s", now.driver);
	return leave(0);
}

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned *count) {
	nvmlReturn_t code = enter("nvmlDeviceGetCount", NULL);
	if (code) return code;
	*count = now.gpus;
	return leave(0);
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *device) {
	pthread_mutex_lock(&lock);
	load();
	char uuid[WORD] = "";
	if (index < (unsigned)now.gpus) strcpy(uuid, now.gpu[index].uuid);
	pthread_mutex_unlock(&lock);
	nvmlReturn_t code = enter("nvmlDeviceGetHandleByIndex", uuid);
	if (code) return code;
	if (!*uuid) return leave(2);
	*device = handle(uuid);
	return leave(*device ? 0 : 23);
}

// GPU begins a call about a whole GPU and names it g.
#define GPU(call)                                \
	nvmlReturn_t code = enter(call, d->uuid); \
	if (code) return code;                    \
	struct gpu *g = gpu_of(d);                \
	if (!g) return leave(mig_of(d) ? 3 : 15)

nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t d, char *uuid, unsigned length) {
	nvmlReturn_t code = enter("nvmlDeviceGetUUID", d->uuid);
	if (code) return code;
	snprintf(uuid, length, "%s", d->uuid);
	return leave(0);
}

nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t d, char *name, unsigned length) {
	GPU("nvmlDeviceGetName");
	snprintf(name, length, "%s", g->name);
	return leave(0);
}

nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t d, unsigned *minor) {
	GPU("nvmlDeviceGetMinorNumber");
	*minor = g->minor;
	return leave(0);
}

nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t d, nvmlPciInfo_t *pci) {
	GPU("nvmlDeviceGetPciInfo");
	memset(pci, 0, sizeof *pci);
	snprintf(pci->busId, sizeof pci->busId, "%.31s", g->pci);
	return leave(0);
}

static nvmlReturn_t memory(nvmlDevice_t d, u64 *total, u64 *reserved, u64 *used) {
	struct gpu *g = gpu_of(d);
	struct mig *m = mig_of(d);
	if (!g && !m) return 15;
	if (g && g->nomem) return 3;
	*total = (u64)(g ? g->total : m->total) << 20;
	*reserved = (u64)(g ? g->reserved : 0) << 20;
	*used = (held(d->uuid) + (g ? g->used : 0)) << 20;
	return 0;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t d, nvmlMemory_t *to) {
	nvmlReturn_t code = enter("nvmlDeviceGetMemoryInfo", d->uuid);
	if (code) return code;
	u64 reserved = 0;
	if ((code = memory(d, &to->total, &reserved, &to->used))) return leave(code);
	to->used += reserved;
	to->free = to->total - to->used;
	return leave(0);
}

nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t d, nvmlMemory_v2_t *to) {
	nvmlReturn_t code = enter("nvmlDeviceGetMemoryInfo_v2", d->uuid);
	if (code) return code;
	if (to->version != (sizeof *to | 2u << 24)) return leave(25);
	if ((code = memory(d, &to->total, &to->reserved, &to->used))) return leave(code);
	to->free = to->total - to->reserved - to->used;
	return leave(0);
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t d, unsigned *count, nvmlProcessInfo_t *to) {
	return list("nvmlDeviceGetComputeRunningProcesses", d, "compute", count, to);
}

nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v3(nvmlDevice_t d, unsigned *count, nvmlProcessInfo_t *to) {
	return list("nvmlDeviceGetGraphicsRunningProcesses", d, "graphics", count, to);
}

nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses_v3(nvmlDevice_t d, unsigned *count, nvmlProcessInfo_t *to) {
	return list("nvmlDeviceGetMPSComputeRunningProcesses", d, "mps", count, to);
}

nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t d, int count, nvmlFieldValue_t *values) {
	GPU("nvmlDeviceGetFieldValues");
	for (int i = 0; i < count; i++) {
		nvmlFieldValue_t *v = &values[i];
		v->valueType = 1, v->value.ullVal = 0, v->nvmlReturn = 0;
		switch (v->fieldId) {
		case 230: v->value.uiVal = g->recovery; break;
		case 144: v->value.uiVal = g->pending; break;
		case 145: v->value.uiVal = g->failed; break;
		default: v->nvmlReturn = 3;
		}
	}
	return leave(0);
}

nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t d, int kind, int counter, u64 *count) {
	GPU("nvmlDeviceGetTotalEccErrors");
	if (g->ecc < 0) return leave(3); // ECC is off
	*count = kind == 1 && counter == 0 ? g->ecc : 0;
	return leave(0);
}

nvmlReturn_t nvmlDeviceGetCurrentClocksEventReasons(nvmlDevice_t d, u64 *reasons) {
	GPU("nvmlDeviceGetCurrentClocksEventReasons");
	*reasons = g->clocks;
	return leave(0);
}

nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t d, unsigned link, int *active) {
	GPU("nvmlDeviceGetNvLinkState");
	if (link >= (u64)(g->links + g->down)) return leave(2);
	*active = link < (u64)g->links;
	return leave(0);
}

nvmlReturn_t nvmlDeviceGetAddressingMode(nvmlDevice_t d, nvmlDeviceAddressingMode_t *mode) {
	GPU("nvmlDeviceGetAddressingMode");
	mode->value = g->numa ? 2 : 0;
	return leave(0);
}

nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t d, unsigned *current, unsigned *pending) {
	GPU("nvmlDeviceGetMigMode");
	*current = *pending = g->mig != 0;
	return leave(0);
}

nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t d, unsigned *count) {
	GPU("nvmlDeviceGetMaxMigDeviceCount");
	*count = g->mig ? 7 : 0;
	return leave(0);
}

nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t d, unsigned index, nvmlDevice_t *to) {
	GPU("nvmlDeviceGetMigDeviceHandleByIndex");
	for (int i = 0; i < now.migs; i++)
		if (!strcmp(now.mig[i].gpu, g->uuid) && !index--) {
			*to = handle(now.mig[i].uuid);
			return leave(*to ? 0 : 23);
		}
	return leave(6);
}

// MIG begins a call about a MIG device and names it m.
#define MIG(call)                                \
	nvmlReturn_t code = enter(call, d->uuid); \
	if (code) return code;                    \
	struct mig *m = mig_of(d);                \
	if (!m) return leave(3)

nvmlReturn_t nvmlDeviceGetGpuInstanceId(nvmlDevice_t d, unsigned *id) {
	MIG("nvmlDeviceGetGpuInstanceId");
	*id = m->gi;
	return leave(0);
}

nvmlReturn_t nvmlDeviceGetComputeInstanceId(nvmlDevice_t d, unsigned *id) {
	MIG("nvmlDeviceGetComputeInstanceId");
	*id = m->ci;
	return leave(0);
}

nvmlReturn_t nvmlDeviceGetSupportedEventTypes(nvmlDevice_t d, u64 *types) {
	GPU("nvmlDeviceGetSupportedEventTypes");
	*types = g->events;
	return leave(0);
}

// registered reports whether the set hears of the GPU: of others the driver tells it nothing, not even later.
static int registered(nvmlEventSet_t set, const char *uuid) {
	for (int i = 0; i < set->gpus; i++)
		if (!strcmp(set->gpu[i], uuid)) return 1;
	return 0;
}

nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t d, u64 types, nvmlEventSet_t set) {
	GPU("nvmlDeviceRegisterEvents");
	if (types & ~(u64)g->events) return leave(3); // as a whole, as the real one
	if (!registered(set, g->uuid)) strcpy(set->gpu[set->gpus++], g->uuid);
	return leave(0);
}

nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t *set) {
	nvmlReturn_t code = enter("nvmlEventSetCreate", NULL);
	if (code) return code;
	for (size_t i = 0; i < sizeof sets / sizeof *sets; i++)
		if (!sets[i].used) {
			sets[i].used = 1, sets[i].last = 0, sets[i].gpus = 0;
			for (int k = 0; k < now.events; k++)
				if (now.event[k].id > sets[i].last) sets[i].last = now.event[k].id;
			*set = &sets[i];
			return leave(0);
		}
	return leave(23);
}

nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t *data, unsigned timeout) {
	nvmlReturn_t code = enter("nvmlEventSetWait", NULL);
	if (code) return code;
	for (long long until = milliseconds() + timeout;;) {
		for (int k = 0; k < now.events; k++) {
			struct event *e = &now.event[k];
			if (e->id <= set->last) continue;
			set->last = e->id;
			if (*e->gpu && !registered(set, e->gpu)) continue;
			struct mig *m = mig_named(e->mig);
			*data = (nvmlEventData_t){*e->gpu ? handle(e->gpu) : NULL, e->type, e->xid, m ? m->gi : -1, m ? m->ci : -1};
			return leave(0);
		}
		if (milliseconds() >= until) return leave(10);
		pthread_mutex_unlock(&lock);
		nap(20);
		pthread_mutex_lock(&lock);
		load();
	}
}

nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t set) {
	pthread_mutex_lock(&lock);
	set->used = 0;
	return leave(0);
}
