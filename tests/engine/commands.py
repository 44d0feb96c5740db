"""A program of a user that judges a server by itself, as `--eval-command` takes it."""

ASKS = """
import json, sys, urllib.request
url, model, out, task = sys.argv[1:]
with open(out, "w") as told:
    for number, line in enumerate(open(task)):
        item = json.loads(line)
        body = {"model": model, "messages": [{"role": "user", "content": item["prompt"]}], "max_tokens": 8}
        data, kind = json.dumps(body | {"temperature": 0}).encode(), {"Content-Type": "application/json"}
        asked = urllib.request.Request(url + "/chat/completions", data, kind)
        said = json.load(urllib.request.urlopen(asked))["choices"][0]["message"]["content"]
        told.write(json.dumps({"id": number, "right": said == item["answer"]}) + "\\n")
"""
