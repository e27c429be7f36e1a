//! Where an experiment runs: one rule for the command line, for Python and
//! for jobs of a cluster.

use lab::{Experiment, RayEngineSpec};

/// Where an experiment runs.
#[derive(Debug, Clone, PartialEq)]
pub enum Place {
    /// On this machine.
    Here,
    /// On the Ray cluster that this process joins.
    Cluster,
    /// As a job that is submitted to a cluster's Jobs API.
    Job(RayEngineSpec),
}

/// Puts a choice of engine and address into an experiment, and returns where
/// the experiment runs. Without a choice, the experiment's own engine and
/// address count. An address implies `ray`.
///
/// # Errors
/// If there is no such engine, or the choice contradicts itself.
pub fn place(experiment: &mut Experiment, engine: Option<&str>, address: Option<&str>) -> Result<Place, String> {
    match (engine, address) {
        (Some("local"), Some(address)) => {
            return Err(format!(
                "the engine `local` is this machine, and the address {address} is that of a cluster: leave one of \
                 them out"
            ));
        }
        (Some("local"), None) => experiment.engine.ray = None,
        (None, None) => {}
        (None | Some("ray"), address) => {
            let ray = experiment.engine.ray.get_or_insert_default();
            match address.map(str::trim) {
                Some("") => {
                    return Err("the address of a cluster is empty: `auto`, HOST:PORT or http://HEAD:8265".into());
                }
                Some(address) => address.clone_into(&mut ray.address),
                None => {}
            }
        }
        (Some(other), _) => return Err(format!("there is no engine `{other}`: there are `local` and `ray`")),
    }
    Ok(match &experiment.engine.ray {
        None => Place::Here,
        Some(ray) if ray.is_jobs_address() => Place::Job(ray.clone()),
        Some(_) => Place::Cluster,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(file: &str, engine: Option<&str>, address: Option<&str>) -> Result<Place, String> {
        let text = format!(
            "name = \"x\"\n[corpus]\nsource = \"d\"\n[space]\nchunker = \"sentence\"\nretriever = \"bm25\"\n{file}"
        );
        place(&mut Experiment::parse(&text, ".").unwrap(), engine, address)
    }

    #[test]
    fn a_choice_goes_before_the_file_and_an_address_implies_ray() {
        const RAY: &str = "[engine]\nray = { address = \"http://head:8265\" }";
        let job = |address: &str| Ok(Place::Job(RayEngineSpec { address: address.to_owned(), ..Default::default() }));
        assert_eq!(chosen("", None, None), Ok(Place::Here));
        assert_eq!(chosen("", Some("ray"), None), Ok(Place::Cluster));
        assert_eq!(chosen("", None, Some("head:6379")), Ok(Place::Cluster));
        assert_eq!(chosen("", None, Some("https://head")), job("https://head"));
        assert_eq!(chosen(RAY, None, None), job("http://head:8265"));
        assert_eq!(chosen(RAY, Some("ray"), None), job("http://head:8265"), "its address is the file's");
        assert_eq!(chosen(RAY, Some("local"), None), Ok(Place::Here));
        assert_eq!(chosen(RAY, Some("ray"), Some("auto")), Ok(Place::Cluster));
    }

    #[test]
    fn contradictions_are_refused() {
        let refused = |engine, address| chosen("", engine, address).unwrap_err();
        assert!(refused(Some("local"), Some("auto")).contains("leave one of them out"));
        assert!(refused(Some("spark"), None).contains("`local` and `ray`"));
        assert!(refused(None, Some(" ")).contains("empty"));
    }
}
