"""The promises, each as a function from what was found to what is wrong with it."""
