"""An example of a plug-in for bome: a method, a task, a verb and a page."""
