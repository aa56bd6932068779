"""The laws that ours is held against, each as small as its idea. None of them remembers an earlier scale-up."""
