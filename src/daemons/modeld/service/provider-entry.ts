// A provider as modeld holds it, made from the configuration, from an operator's row, or for the
// rehearsal.
import { findSecretFile, readPrivateFile } from '../../../platform/private-file.ts';
import { LABELS, ProviderConfig } from '../config.ts';
import { toMask } from '../rules/labels.ts';
import { REHEARSAL } from '../rules/models.ts';
import type { StoredProvider } from '../store/settings.ts';
import type { ProviderSettings } from './ports.ts';

export type ProviderEntry = {
  settings: ProviderSettings;
  labelsAllowed: number;
  models: readonly string[];
  isConfigured: boolean;
  hasKey: boolean;
};

/** Removed from errors like any key, so it must not be a word of theirs. */
const REHEARSAL_KEY = 'rehearsal-needs-no-key';
const REHEARSAL_CONCURRENCY = 256;

/** Read once: the key lives in a closure that only the provider client calls. */
export function readKey(
  name: string,
  provider: ProviderConfig,
  credentialsDir: string | undefined,
): string | undefined {
  const found = findSecretFile(
    { file: provider.key_file, credential: provider.key_credential },
    { name: `modeld.providers.${name}`, credentialsDir },
  );
  return found && readPrivateFile(found.file, found.owned);
}

export function fromConfig(
  name: string,
  provider: ProviderConfig,
  key: string | undefined,
): ProviderEntry {
  const { timeouts } = provider;
  return {
    settings: {
      name,
      dialect: provider.dialect,
      baseUrl: provider.base_url,
      readKey: () => key,
      concurrency: provider.concurrency,
      requestsPerMinute: provider.requests_per_min,
      tokensPerMinute: provider.tokens_per_min,
      maxTokensField: provider.max_tokens_field,
      timeouts: {
        connectMs: timeouts.connect_ms,
        firstByteMs: timeouts.first_byte_ms,
        idleMs: timeouts.idle_ms,
        totalMs: timeouts.total_ms,
      },
    },
    labelsAllowed: toMask(provider.labels_allowed),
    models: provider.models,
    isConfigured: true,
    hasKey: key !== undefined,
  };
}

export function fromStore(stored: StoredProvider, key: string | undefined): ProviderEntry {
  const provider = ProviderConfig.parse({
    dialect: stored.dialect,
    base_url: stored.baseUrl,
    models: stored.models,
  });
  const live = fromConfig(stored.name, provider, key);
  return { ...live, settings: { ...live.settings, price: stored.price }, isConfigured: false };
}

/** It is part of this runtime and stores nothing, so it may see all labels. */
export function makeRehearsal(address: string): ProviderEntry {
  const provider = ProviderConfig.parse({
    dialect: 'anthropic',
    base_url: address,
    labels_allowed: LABELS,
    concurrency: REHEARSAL_CONCURRENCY,
  });
  const live = fromConfig(REHEARSAL, provider, REHEARSAL_KEY);
  return { ...live, hasKey: false };
}
