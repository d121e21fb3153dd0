// Package rollout has the tests that roll ModelServings out on the lab. Every scenario is recorded,
// and every frame of it judged.
package rollout
