//! What must survive a restart: versioned records in one redb file.
