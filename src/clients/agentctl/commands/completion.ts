// agentctl completion: prints a shell's script. It only calls `agentctl --complete`, which knows
// the command table and the runtime, so that an installed script never becomes outdated.
import { fault } from '../../../wire/errors.ts';
import type { Session } from '../command.ts';

const SCRIPTS: Readonly<Record<string, string>> = {
  bash: `# bash completion for agentctl
_agentctl() {
  local line
  COMPREPLY=()
  while IFS= read -r line; do
    COMPREPLY+=("\${line%%$'\\t'*}")
  done < <("\${COMP_WORDS[0]}" --complete "\${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -o default -F _agentctl agentctl
`,
  zsh: `#compdef agentctl
_agentctl() {
  local line
  local -a found shown
  while IFS= read -r line; do
    found+=("\${line%%$'\\t'*}")
    shown+=("\${line//$'\\t'/  -- }")
  done < <("\${words[1]}" --complete "\${(@)words[2,CURRENT]}" 2>/dev/null)
  if (( $#found )); then
    compadd -l -d shown -a found
  else
    _files
  fi
}
compdef _agentctl agentctl
# Autoloaded from fpath, this file is the function's first call.
if [ "$funcstack[1]" = "_agentctl" ]; then _agentctl; fi
`,
  fish: `# fish completion for agentctl
function __agentctl_complete
    set -l words (commandline -opc) (commandline -ct)
    set -l found ($words[1] --complete $words[2..-1] 2>/dev/null)
    if set -q found[1]
        printf '%s\\n' $found
    else
        __fish_complete_path (commandline -ct)
    end
end
complete -c agentctl -f -a '(__agentctl_complete)'
`,
};

export async function completion({ args, out }: Session): Promise<void> {
  const shell = args.positionals[0]!;
  const script = SCRIPTS[shell];
  if (script === undefined) {
    throw fault('bad_usage', `unknown shell ${shell}`, {
      hint: `Use one of: ${Object.keys(SCRIPTS).join(', ')}`,
    });
  }
  if (out.json) out.printJson({ completion: { shell, script } });
  else out.write(script);
}
