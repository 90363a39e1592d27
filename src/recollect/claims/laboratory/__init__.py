"""What several claims share: trainings, copying as a task, what autograd knows of a layer, figures over seeds."""
