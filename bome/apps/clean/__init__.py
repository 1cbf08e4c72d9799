"""What 'bome clean' and 'bome predict' do: a table with doubtful labels in, a cleaned table, a model and a page out."""
