package revision

import (
	corev1 "k8s.io/api/core/v1"
)

// leaveOutOfVolume leaves an empty emptyDir to canonical, which treats it as the absence of any
// source, as the server does.
func leaveOutOfVolume(v *corev1.Volume) {
	if s := v.EmptyDir; s != nil && s.SizeLimit != nil {
		*s.SizeLimit = spell(*s.SizeLimit)
	}
	if s := v.HostPath; s != nil {
		dropPointer(&s.Type, corev1.HostPathUnset)
	}
	if s := v.Secret; s != nil {
		dropPointer(&s.DefaultMode, corev1.SecretVolumeSourceDefaultMode)
	}
	if s := v.ConfigMap; s != nil {
		dropPointer(&s.DefaultMode, corev1.ConfigMapVolumeSourceDefaultMode)
	}
	if s := v.DownwardAPI; s != nil {
		dropPointer(&s.DefaultMode, corev1.DownwardAPIVolumeSourceDefaultMode)
		leaveOutOfFiles(s.Items)
	}
	if s := v.Projected; s != nil {
		dropPointer(&s.DefaultMode, corev1.ProjectedVolumeSourceDefaultMode)
		for i := range s.Sources {
			leaveOutOfProjection(&s.Sources[i])
		}
	}
	if s := v.Image; s != nil {
		drop(&s.PullPolicy, pullPolicy(s.Reference))
	}
	if s := v.Ephemeral; s != nil && s.VolumeClaimTemplate != nil {
		claim := &s.VolumeClaimTemplate.Spec
		dropPointer(&claim.VolumeMode, corev1.PersistentVolumeFilesystem)
		spellList(claim.Resources.Limits)
		spellList(claim.Resources.Requests)
	}
	leaveOutOfDriver(&v.VolumeSource)
}

func leaveOutOfProjection(p *corev1.VolumeProjection) {
	if p.DownwardAPI != nil {
		leaveOutOfFiles(p.DownwardAPI.Items)
	}
	if p.ServiceAccountToken != nil {
		dropPointer(&p.ServiceAccountToken.ExpirationSeconds, 60*60)
	}
}

func leaveOutOfFiles(items []corev1.DownwardAPIVolumeFile) {
	for i := range items {
		leaveOutOfField(items[i].FieldRef)
		leaveOutOfResource(items[i].ResourceFieldRef)
	}
}

// leaveOutOfDriver has the drivers that were once part of Kubernetes.
func leaveOutOfDriver(v *corev1.VolumeSource) {
	if s := v.ISCSI; s != nil {
		drop(&s.ISCSIInterface, "default")
	}
	if s := v.RBD; s != nil {
		drop(&s.RBDPool, "rbd")
		drop(&s.RadosUser, "admin")
		drop(&s.Keyring, "/etc/ceph/keyring")
	}
	if s := v.ScaleIO; s != nil {
		drop(&s.StorageMode, "ThinProvisioned")
		drop(&s.FSType, "xfs")
	}
	if s := v.AzureDisk; s != nil {
		dropPointer(&s.CachingMode, corev1.AzureDataDiskCachingReadWrite)
		dropPointer(&s.FSType, "ext4")
		dropPointer(&s.ReadOnly, false)
		dropPointer(&s.Kind, corev1.AzureSharedBlobDisk)
	}
}
