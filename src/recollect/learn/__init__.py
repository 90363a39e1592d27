"""The course in the terminal: its chapters, walked through one after the other, and exercises graded by the laws."""
