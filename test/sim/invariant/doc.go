// Package invariant judges a simulated history. It sees every write in its order and knows what is
// stored, now and at any earlier time; of the coordinator it knows what each call had read.
//
// A rule is judged by what the writer could know: where a cache may be late, any state of an object
// since the oldest reading of the call counts in the writer's favour. Failures that nobody caused
// count in its favour until then too. Nothing else does.
package invariant
