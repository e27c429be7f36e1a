//! How errors name the settings to check. Those of a model are under `[models]`; a system is called by its section,
//! and its endpoint by the address with the setting that holds it: ``http://h/ask (`url` of [systems.app])``. Errors
//! keep these names as text, so the advice stays right when an error is sent to another process.

/// The beginnings of the sections of programs that are no models.
const SYSTEMS: &str = "[systems.";
const RETRIEVERS: &str = "[retriever.";

/// The section of a system, by which messages name the system: `[systems.app]`.
pub fn system_section(name: &str) -> String {
    format!("{SYSTEMS}{name}]")
}

/// The section of a retriever that calls a program, by which messages name the program: `[retriever.http]`.
pub fn retriever_section(name: &str) -> String {
    format!("{RETRIEVERS}{name}]")
}

/// Whether a section is that of a program that is no model.
fn is_program(section: &str) -> bool {
    section.starts_with(SYSTEMS) || section.starts_with(RETRIEVERS)
}

/// The name of a system's endpoint in errors.
pub(crate) fn system_endpoint(address: &str, setting: &str, section: &str) -> String {
    format!("{address} (`{setting}` of {section})")
}

/// The setting with the address of an endpoint, if it is that of a program that is no model.
fn program_setting(endpoint: &str) -> Option<&str> {
    let (_, label) = endpoint.rsplit_once(" (`")?;
    let (setting, section) = label.split_once("` of ")?;
    is_program(section).then_some(setting)
}

/// The setting that holds the address of an endpoint.
pub(super) fn address_setting(endpoint: &str) -> &str {
    program_setting(endpoint).unwrap_or("base_url")
}

/// What to do if an endpoint moved.
pub(super) fn redirect_advice(endpoint: &str) -> String {
    let setting = address_setting(endpoint);
    match program_setting(endpoint) {
        // The protocol adds the path of a call to it.
        Some("base_url") => format!("set `{setting}` to it, without the path of a call"),
        _ => format!("set `{setting}` to it"),
    }
}

/// The settings that decide what a request holds.
pub(super) fn request_settings(endpoint: &str) -> String {
    match program_setting(endpoint) {
        None => "`model`, `base_url`, `omit` and `extra`".to_owned(),
        Some("base_url") => "`model`, `base_url` and `extra`".to_owned(),
        Some("url") => "`url`, `method`, `headers`, `query` and `body`".to_owned(),
        Some(setting) => format!("`{setting}`"),
    }
}

/// What to do if an answer cannot be read. Messages about systems name the setting themselves.
pub(super) fn malformed_advice(model: &str) -> &'static str {
    match is_program(model) {
        true => "",
        false => "; run again, and if it happens again, check the server",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;

    #[test]
    fn advice_names_the_settings_of_a_model_or_of_a_system() {
        let refused = |endpoint: &str| {
            let (endpoint, message) = (endpoint.to_owned(), "no".to_owned());
            Error::Refused { endpoint, status: 404, message }.to_string()
        };
        let endpoint = |setting| system_endpoint("http://h/ask", setting, &system_section("app"));
        assert_eq!(
            refused(&endpoint("url")),
            "http://h/ask (`url` of [systems.app]) refused the request (404): no; check `url`, `method`, `headers`, \
             `query` and `body`"
        );
        let of_retriever = system_endpoint("http://h/find", "url", &retriever_section("http"));
        assert!(refused(&of_retriever).ends_with("check `url`, `method`, `headers`, `query` and `body`"));
        assert!(refused(&endpoint("base_url")).ends_with("check `model`, `base_url` and `extra`"));
        assert!(refused(&endpoint("version.url")).ends_with("check `version.url`"));
        assert!(refused("http://h/v1").ends_with("check `model`, `base_url`, `omit` and `extra`"));
        let lost = Error::connection(&endpoint("url"), "refused").to_string();
        assert!(lost.ends_with("check `url`, and that the server runs"), "{lost}");
        let lost = Error::connection("http://h/v1", "refused").to_string();
        assert!(lost.ends_with("check `base_url`, and that the server runs"), "{lost}");
    }

    #[test]
    fn only_a_label_of_a_system_is_read_as_one() {
        for endpoint in ["http://h/a (`x`", "http://h (`url` of something)", "(`", ""] {
            assert_eq!(address_setting(endpoint), "base_url", "{endpoint}");
        }
    }
}
