use super::*;

#[test]
fn a_namespace_that_does_not_exist_is_not_found() {
    let error = ServiceError::from(SubmitError::NoNamespace("there is no namespace 'x'".to_owned()));
    assert_eq!((error.kind, error.code.as_deref()), (ErrorKind::NotFound, Some("NoNamespace")));
}

#[test]
fn what_is_wrong_with_the_database_stays_in_the_log() {
    let error = ServiceError::from(StoreError::Corrupt("row 7 of secrets".to_owned()));
    assert_eq!(error.kind, ErrorKind::Internal);
    assert!(!error.message.contains("row 7"), "{error}");
}
