// Codex. Its own sandbox needs namespaces, which no program can make in a box.
import { MODEL_URL, type Profile } from './profile.ts';

const CONFIG = `model_provider = "agentd"
sandbox_mode = "danger-full-access"
web_search = "disabled"
check_for_update_on_startup = false

[model_providers.agentd]
name = "agentd"
base_url = "${MODEL_URL}/openai/v1"
wire_api = "responses"
env_key = "OPENAI_API_KEY"

[analytics]
enabled = false

[projects."/workspace"]
trust_level = "trusted"
`;

export const codex: Profile = {
  name: 'codex',
  about: 'Codex of OpenAI',
  commands: ['codex'],
  package: { name: '@openai/codex', version: '0.169.0' },
  env: {},
  homeFiles: [{ path: '.codex/config.toml', content: CONFIG }],
  needlessHosts: ['chatgpt.com', 'api.openai.com', 'ab.chatgpt.com', 'github.com'],
  round: (prompt) => ['exec', '--skip-git-repo-check', prompt],
  nextRound: (prompt) => ['exec', 'resume', '--last', '--skip-git-repo-check', prompt],
};
