"""The answers to the exercises: each file is complete, and without what is to be written it is the exercise."""
