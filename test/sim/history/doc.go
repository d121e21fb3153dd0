// Package history plays the real coordinator in a simulated world: one seed is one history, and the
// same seed gives the same again. Processes of the coordinator have caches that lag, lose answers,
// die between any two calls, and come back as former leaders in the middle of one.
//
// The agents are the real state machine on simulated nodes: see package world.
package history
