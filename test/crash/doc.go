// Package crash proves that an agent may be killed at any write. Its tests kill the agent, by
// SIGKILL and as a process of its own, after every journal commit and around every write to the
// API server that one update makes, damage what it left on disk, start it again and look at the
// end: one patch, one planned restart of each patched container, no hold left.
//
// The table against the scripted runtime and a real API server has every write point with every
// damage. On the lab each write point comes once, in the agent's own Pod.
package crash
