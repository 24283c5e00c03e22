//! GetCallerIdentity, with which people and tools check that they are let in.

use super::{
    answer::{ApiError, Asked},
    state::State,
    xml::Xml,
};

pub(super) const NAMESPACE: &str = "https://sts.amazonaws.com/doc/2011-06-15/";

pub(super) fn handle(state: &mut State, asked: &Asked) -> Result<String, ApiError> {
    if asked.action != "GetCallerIdentity" {
        return Err(ApiError::new(
            "InvalidAction",
            format!("Could not find operation {} for version 2011-06-15", asked.action),
        ));
    }
    let id = state.uuid();
    let account = state.settings.account.clone();
    Ok(Xml::document("GetCallerIdentityResponse", NAMESPACE, |xml| {
        xml.element("GetCallerIdentityResult", |xml| {
            xml.text("Arn", format!("arn:aws:iam::{account}:user/{}", asked.by));
            xml.text("UserId", &asked.by);
            xml.text("Account", &account);
        });
        xml.element("ResponseMetadata", |xml| xml.text("RequestId", &id));
    }))
}
