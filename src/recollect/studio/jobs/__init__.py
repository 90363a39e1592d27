"""What is started from a page: trainings, races and the commands of the course, each as a process of its own."""
