"""What looks after the tree itself: no part of the product, the lab or the tests."""
