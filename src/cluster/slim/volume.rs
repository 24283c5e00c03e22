//! Reads VolumeAttachments, PersistentVolumeClaims and the claims of pods.

use serde::Deserialize;

use super::{Meta, or_default};
use crate::domain::{NodeName, PodUid};

/// A volume that is attached to a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::cluster) struct Attachment {
    /// `spec.nodeName`.
    pub(in crate::cluster) node: NodeName,
    /// `spec.source.persistentVolumeName`, or the name of the VolumeAttachment: a volume that a pod
    /// defines itself (`inlineVolumeSpec`) has no PersistentVolume.
    pub(in crate::cluster) volume: String,
}

#[derive(Deserialize)]
struct SlimAttachment {
    metadata: Meta,
    spec: AttachmentSpec,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AttachmentSpec {
    node_name: String,
    #[serde(default, deserialize_with = "or_default")]
    source: AttachmentSource,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct AttachmentSource {
    persistent_volume_name: Option<String>,
}

/// Reads a VolumeAttachment.
pub(in crate::cluster) fn attachment(json: &str) -> Result<Attachment, serde_json::Error> {
    let SlimAttachment { metadata, spec } = serde_json::from_str(json)?;
    let volume = spec.source.persistent_volume_name.unwrap_or(metadata.name);
    Ok(Attachment { node: spec.node_name.into(), volume })
}

#[derive(Deserialize)]
struct SlimClaim {
    #[serde(default, deserialize_with = "or_default")]
    spec: ClaimSpec,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ClaimSpec {
    volume_name: Option<String>,
}

/// Reads the PersistentVolume of a PersistentVolumeClaim; `None`: it is not bound.
pub(in crate::cluster) fn volume_of_claim(
    json: &[u8],
) -> Result<Option<String>, serde_json::Error> {
    let claim: SlimClaim = serde_json::from_slice(json)?;
    Ok(claim.spec.volume_name.filter(|name| !name.is_empty()))
}

/// The PersistentVolumeClaims that a pod uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::cluster) struct ClaimsOfPod {
    /// `metadata.uid` of the pod.
    pub(in crate::cluster) uid: PodUid,
    /// The namespace of the pod and its claims.
    pub(in crate::cluster) namespace: String,
    /// The names of the claims. That of a generic ephemeral volume is `POD-VOLUME`.
    pub(in crate::cluster) claims: Vec<String>,
}

#[derive(Deserialize)]
struct SlimPod {
    metadata: Meta,
    #[serde(default, deserialize_with = "or_default")]
    spec: PodSpec,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct PodSpec {
    #[serde(deserialize_with = "or_default")]
    volumes: Vec<Volume>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Volume {
    name: String,
    persistent_volume_claim: Option<ClaimSource>,
    ephemeral: Option<serde::de::IgnoredAny>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ClaimSource {
    claim_name: String,
}

/// Reads which claims a pod uses.
pub(in crate::cluster) fn claims_of_pod(json: &str) -> Result<ClaimsOfPod, serde_json::Error> {
    let SlimPod { metadata, spec } = serde_json::from_str(json)?;
    let claim_of = |volume: Volume| match (volume.persistent_volume_claim, volume.ephemeral) {
        (Some(claim), _) => Some(claim.claim_name),
        (None, Some(_)) => Some(format!("{}-{}", metadata.name, volume.name)),
        (None, None) => None,
    };
    let claims = spec.volumes.into_iter().filter_map(claim_of).collect();
    Ok(ClaimsOfPod {
        uid: metadata.uid.as_str().into(),
        namespace: metadata.namespace.clone(),
        claims,
    })
}
