"""What stands in the folders of a studio: runs with their curves, and races; read as they grow, nothing twice."""
