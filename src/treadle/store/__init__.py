"""Room for what is kept: sessions, transcripts, bindings, injections and context reports."""
