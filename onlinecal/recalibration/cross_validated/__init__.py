"""RecalibratedClassifierCV: classifiers of scikit-learn, recalibrated on rows they were not fitted on."""
